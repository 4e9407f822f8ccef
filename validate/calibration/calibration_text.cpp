#include <array>
#include <cstdio>

#include "estimator/base/format.h"
#include "estimator/device/measurement_words.h"
#include "estimator/report/text_table.h"
#include "validate/calibration/calibration.h"
#include "validate/calibration/sizes.h"

namespace gpuplan {
namespace {

// Three significant digits: "51.2 TFLOP/s".
std::string rate_text(double per_second, const char* unit) {
  constexpr std::array<const char*, 6> kPrefixes{"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  while (per_second >= 999.5 && prefix + 1 < kPrefixes.size()) per_second /= 1000, ++prefix;
  std::array<char, 48> text{};
  const int decimals = per_second < 9.995 ? 2 : per_second < 99.95 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f %s%s/s", decimals, per_second, kPrefixes[prefix], unit);
  return text.data();
}

// "2.40 us"
std::string time_text(std::int64_t nanoseconds) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.2f us", static_cast<double>(nanoseconds) / 1000);
  return text.data();
}

double per_second(double work, std::int64_t nanoseconds) { return work / (static_cast<double>(nanoseconds) * 1e-9); }

// The best of a table and its row.
template <class Row>
struct Best {
  double rate = 0;
  Row row;
  int count = 0;
  void see(double r, const Row& candidate) {
    ++count;
    if (r > rate) rate = r, row = candidate;
  }
};

class Lines {
 public:
  explicit Lines(bool unicode)
      : by_(unicode ? " × " : " x "),
        table_({TextTable::Align::left, TextTable::Align::right, TextTable::Align::left}) {}

  void bytes(const std::string& name, const std::vector<TimedBytes>& times) {
    Best<TimedBytes> best;
    for (const TimedBytes& t : times) best.see(per_second(static_cast<double>(t.bytes), t.nanoseconds), t);
    if (best.count > 0) line(name, rate_text(best.rate, "B"), "with " + format_bytes(best.row.bytes), best.count);
  }
  void gemm(const Measurements& m) {
    for (const auto& [type, word] : kProductTypes) {
      Best<TimedGemm> best;
      for (const TimedGemm& g : m.gemm)
        if (g.type == type) best.see(per_second(flops(g), g.nanoseconds), g);
      const TimedGemm& g = best.row;
      if (best.count > 0)
        line("matrix products, " + std::string(word), rate_text(best.rate, "FLOP"),
             "at " + std::to_string(g.m) + by_ + std::to_string(g.n) + by_ + std::to_string(g.k), best.count);
    }
  }
  void convolution(const Measurements& m) {
    for (const auto& [type, word] : kProductTypes)
      for (const auto& [layout, layout_word] : kLayouts) {
        Best<TimedConvolution> best;
        for (const TimedConvolution& c : m.convolution)
          if (c.type == type && c.layout == layout) best.see(per_second(flops(c), c.nanoseconds), c);
        const TimedConvolution& c = best.row;
        if (best.count > 0)
          line("convolutions, " + std::string(word) + " " + std::string(layout_word), rate_text(best.rate, "FLOP"),
               "at " + std::to_string(c.n) + by_ + std::to_string(c.c) + by_ + std::to_string(c.h) + by_ +
                   std::to_string(c.w) + ", " + std::to_string(c.k) + " filters of " + std::to_string(c.r) + by_ +
                   std::to_string(c.s),
               best.count);
      }
  }
  void line(const std::string& name, const std::string& value, const std::string& where, int sizes) {
    table_.row({name, value, where + (sizes > 0 ? ", the best of " + std::to_string(sizes) + " sizes" : "")});
  }
  std::string text() const { return table_.text(); }

 private:
  std::string by_;
  TextTable table_;
};

}  // namespace

std::string calibration_text(const Calibration& c, bool unicode) {
  const Measurements& m = c.gpu.measured.value();
  Lines lines(unicode);
  lines.line("launch", time_text(m.launch_ns), "from one small kernel to the next", 0);
  lines.bytes("to the device, pageable", m.to_device_pageable);
  lines.bytes("to the device, pinned", m.to_device_pinned);
  lines.bytes("to the host, pageable", m.to_host_pageable);
  lines.bytes("to the host, pinned", m.to_host_pinned);
  lines.bytes("copies, each way", m.copy);
  lines.gemm(m);
  lines.convolution(m);
  lines.line("context", format_bytes(c.gpu.context_bytes.value_or(0)), "on the device, besides the operands", 0);
  std::string out = c.gpu.title + " · " + m.with + "\n\n" + lines.text();
  if (!unicode) out.replace(out.find(" · "), std::string(" · ").size(), ", ");
  if (c.too_long > 0)
    out += "\n" + std::to_string(c.too_long) + " sizes were left out: they take too long (--seconds)\n";
  if (c.without_room > 0)
    out += "\n" + std::to_string(c.without_room) + " sizes were left out: they need more memory than was free\n";
  return out;
}

}  // namespace gpuplan
