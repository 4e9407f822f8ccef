// PYTORCH_ALLOC_CONF, by the rules of c10/core/AllocatorConfig.cpp (2.10 and newer; large_segment_size_mb came
// with them, and older releases want max_split_size_mb above 20, not from 20). Numbers are stricter
// here: std::stoull reads "32abc" as 32, which is never what was meant.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>

#include "estimator/allocator/allocator.h"
#include "estimator/allocator/allocator_constants.h"
#include "estimator/base/error.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMiB = 1 << 20;

// What each key wants. The ones at the end concern host memory, locking or CUDA graphs and place nothing.
enum class ValueKind { megabytes, fraction, boolean, divisions, backend, count };
struct Key {
  const char* name;
  ValueKind value;
};
constexpr Key kKeys[] = {
    {"expandable_segments", ValueKind::boolean},
    {"max_split_size_mb", ValueKind::megabytes},
    {"max_non_split_rounding_mb", ValueKind::megabytes},
    {"large_segment_size_mb", ValueKind::megabytes},
    {"roundup_power2_divisions", ValueKind::divisions},
    {"garbage_collection_threshold", ValueKind::fraction},
    {"backend", ValueKind::backend},
    {"release_lock_on_cudamalloc", ValueKind::boolean},
    {"release_lock_on_hipmalloc", ValueKind::boolean},
    {"graph_capture_record_stream_reuse", ValueKind::boolean},
    {"pinned_use_background_threads", ValueKind::boolean},
    {"pinned_use_cuda_host_register", ValueKind::boolean},
    {"pinned_use_hip_host_register", ValueKind::boolean},
    {"pinned_num_register_threads", ValueKind::count},
    {"pinned_reserve_segment_size_mb", ValueKind::count},
};

struct Token {
  std::string text;
  std::size_t column = 0;  // 0-based
};

class ConfParser {
 public:
  explicit ConfParser(std::string_view text) : source_{"PYTORCH_ALLOC_CONF", std::string(text)} { tokenize(); }

  AllocatorSettings parse() {
    while (at_ < tokens_.size()) {
      const Token key = tokens_[at_++];
      expect(":", "after a key");
      take_value(key);
      if (at_ < tokens_.size()) expect(",", "between settings");
    }
    check_sizes();
    return std::move(settings_);
  }

 private:
  // Cuts at , : [ ] and drops white space.
  void tokenize() {
    bool open = false;  // the last token goes on
    const std::string& text = source_.text;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (std::isspace(static_cast<unsigned char>(text[i])) != 0) continue;
      const bool mark = std::string_view(",:[]").find(text[i]) != std::string_view::npos;
      if (mark || !open) tokens_.push_back({{}, i});
      tokens_.back().text += text[i];
      open = !mark;
    }
  }

  [[noreturn]] void fail(const Token& token, const std::string& message) const {
    throw Error(message, ErrorKind::usage)
        .at({&source_, 1, static_cast<int>(token.column) + 1,
             static_cast<int>(std::max<std::size_t>(token.text.size(), 1))});
  }

  Token next(const char* wanted) {
    if (at_ < tokens_.size()) return tokens_[at_++];
    fail({"", source_.text.size()}, std::string("expected ") + wanted + ", not the end");
  }
  void expect(const char* mark, const char* where) {
    const Token token = next((std::string("\"") + mark + "\" " + where).c_str());
    if (token.text != mark) fail(token, std::string("expected \"") + mark + "\" " + where);
  }

  std::int64_t whole_number(const Token& token) const {
    std::int64_t value = 0;
    const char* const end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    if (result.ec != std::errc{} || result.ptr != end || value < 0)
      fail(token, "expected a whole number that is not negative");
    return value;
  }
  bool boolean(const Token& token) const {
    if (token.text != "True" && token.text != "False") fail(token, "expected True or False, written so");
    return token.text == "True";
  }

  void take_value(const Token& key) {
    const auto* const known =
        std::find_if(std::begin(kKeys), std::end(kKeys), [&](const Key& k) { return key.text == k.name; });
    if (known == std::end(kKeys)) {
      std::vector<std::string> names;
      for (const Key& k : kKeys) names.emplace_back(k.name);
      fail(key, "unknown key \"" + key.text + "\"" + did_you_mean(key.text, names));
    }
    if (known->value == ValueKind::divisions) return take_divisions();
    const Token value = next("a value");
    switch (known->value) {
      case ValueKind::megabytes: return take_megabytes(key, value);
      case ValueKind::fraction: return take_threshold(value);
      case ValueKind::count: whole_number(value); return;
      case ValueKind::backend: return take_backend(value);
      case ValueKind::boolean:
      case ValueKind::divisions: break;
    }
    const bool on = boolean(value);
    if (key.text == "expandable_segments") settings_.expandable_segments = on;
  }

  void take_megabytes(const Token& key, const Token& value) {
    const std::int64_t bytes = std::min(whole_number(value), INT64_MAX / kMiB) * kMiB;
    if (key.text == "large_segment_size_mb") {
      if (bytes <= kMinLargeSegmentBytes) fail(value, "large_segment_size_mb must be more than 10");
      settings_.large_segment_bytes = bytes;
    } else if (key.text == "max_split_size_mb") {
      settings_.max_split_bytes = bytes;
      max_split_ = value;
    } else {
      settings_.max_non_split_rounding_bytes = bytes;
      max_rounding_ = value;
    }
  }

  void take_threshold(const Token& value) {
    char* end = nullptr;
    const double threshold = std::strtod(value.text.c_str(), &end);
    if (*end != '\0' || !(threshold > 0 && threshold < 1))
      fail(value, "garbage_collection_threshold must be between 0.0 and 1.0, both excluded");
    settings_.garbage_collection_threshold = threshold;
  }

  void take_backend(const Token& value) const {
    if (value.text == "cudaMallocAsync")
      fail(value, "backend:cudaMallocAsync is not modelled: the driver decides there");
    if (value.text != "native")
      fail(value, "unknown backend \"" + value.text + "\": native is the one that is modelled");
  }

  // "4", or "[256:1,512:2,>:4]" where an interval is named by its lower bound in MiB.
  void take_divisions() {
    Token value = next("a value");
    if (value.text != "[") {
      settings_.roundup_power2_divisions = power_of_two(value, false, "the number of divisions");
      settings_.roundup_by_interval.clear();
      return;
    }
    std::vector<std::int64_t> divisions(kIntervals, 0);
    std::size_t last = 0;
    bool first = true;
    for (value = next("an interval"); value.text != "]"; value = next("an interval")) {
      const Token interval = value;
      expect(":", "after an interval");
      const std::int64_t count = power_of_two(next("a number of divisions"), true, "the number of divisions");
      if (interval.text == ">") {
        std::fill(divisions.begin() + static_cast<std::ptrdiff_t>(last) + 1, divisions.end(), count);
      } else {
        const auto mib = static_cast<std::uint64_t>(power_of_two(interval, false, "an interval"));
        last = std::min<std::size_t>(static_cast<std::size_t>(std::countr_zero(mib)), kIntervals - 1);
        if (first) std::fill_n(divisions.begin(), last, count);
        first = false;
        divisions[last] = count;
      }
      if (at_ < tokens_.size() && tokens_[at_].text != "]") expect(",", "between intervals");
    }
    settings_.roundup_power2_divisions = 0;
    settings_.roundup_by_interval = std::move(divisions);
  }

  std::int64_t power_of_two(const Token& token, bool zero_too, const char* what) const {
    const std::int64_t value = whole_number(token);
    if (!(zero_too && value == 0) && !std::has_single_bit(static_cast<std::uint64_t>(value)))
      fail(token, std::string(what) + " must be a power of 2" + (zero_too ? ", or 0 for none" : ""));
    return value;
  }

  // These two are read after large_segment_size_mb, wherever it stands, and may not be smaller.
  void check_sizes() {
    const std::int64_t least = settings_.large_segment_bytes;
    const std::string at_least = " is too small: it must be at least " + std::to_string(least / kMiB);
    if (settings_.max_split_bytes < least) fail(max_split_, "max_split_size_mb" + at_least);
    if (max_rounding_.text.empty()) settings_.max_non_split_rounding_bytes = least;
    if (settings_.max_non_split_rounding_bytes < least) fail(max_rounding_, "max_non_split_rounding_mb" + at_least);
  }

  Source source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  AllocatorSettings settings_;
  Token max_split_, max_rounding_;
};

}  // namespace

AllocatorSettings parse_alloc_conf(std::string_view text) { return ConfParser(text).parse(); }

}  // namespace gpuplan
