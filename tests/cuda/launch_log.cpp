#include "tests/cuda/launch_log.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace gpuplan {
namespace {

std::int64_t decimal(std::string_view text) {
  std::int64_t value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : -1;
}
std::uint64_t hexadecimal(std::string_view text) {
  if (text.starts_with("0x")) text.remove_prefix(2);
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(at, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

bool within(std::string_view triple, const std::int64_t (&most)[3], std::int64_t& product) {
  const auto sizes = split(triple, ',');
  product = 1;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::int64_t n = i < sizes.size() ? decimal(sizes[i]) : 0;
    if (n < 1 || n > most[i]) return false;
    product *= n;
  }
  return sizes.size() == 3;
}

class Checker {
 public:
  Checker(const std::vector<Extent>& segments_ever, const LaunchLimits& limits, CheckedLaunches& result)
      : segments_(segments_ever), limits_(limits), result_(result) {}

  void line(std::string_view line, const Work& work) {
    const auto columns = split(line, '\t');
    work_ = &work;
    line_ = line;
    if (columns.size() != 4) return wrong("is no line of the log");
    if (columns[0] != "0" || columns[1] != "run") wrong("is not on the legacy stream");
    const auto words = split(columns[3], ' ');
    if (columns[2] == "cublasLtMatmul") {
      ++result_.products;
      product(words);
    } else if (columns[2].starts_with("cudnnConvolution")) {
      ++result_.convolutions;
      operands(words);
    } else if (columns[2].starts_with("cudnnBatchNormalization")) {
      ++result_.batch_norms;
      operands(words);
    } else if (columns[2].starts_with("cudnn")) {
      ++result_.undescribed;
    } else if (words[0] == "grid") {
      ++result_.kernels;
      kernel(words);
    } else {
      wrong("is of a library that nothing is known of");
    }
  }

 private:
  void wrong(const std::string& what) {
    result_.wrong.push_back(work_->what + " " + what + ": " + std::string(line_.substr(0, 400)));
  }

  // The device's own page is the only device memory beside the segments.
  bool own_page(std::uint64_t address, std::int64_t bytes) {
    const auto page = static_cast<std::uint64_t>(limits_.partial_bytes);
    if (page_ == 0) page_ = address / page * page;
    return Extent{page_, limits_.partial_bytes}.holds(address, bytes);
  }
  bool in_a_segment(std::uint64_t address) const {
    return std::ranges::any_of(segments_, [&](const Extent& s) { return s.holds(address, 1); });
  }
  void memory(std::uint64_t address, std::int64_t bytes) {
    ++result_.pointers;
    const bool known = std::ranges::any_of(work_->extents, [&](const Extent& e) { return e.holds(address, bytes); });
    if (!known && (in_a_segment(address) || !own_page(address, bytes))) wrong("is given memory that is not its own");
  }

  // grid X,Y,Z block X,Y,Z shared N arguments ...
  void kernel(const std::vector<std::string_view>& words) {
    constexpr std::int64_t kGrid[] = {2147483647, 65535, 65535}, kBlock[] = {1024, 1024, 64};
    std::int64_t blocks = 0, threads = 0;
    if (words.size() < 8 || !within(words[1], kGrid, blocks) || !within(words[3], kBlock, threads) || threads > 1024)
      return wrong("has a grid or a block beyond CUDA's limits");
    const std::int64_t shared = decimal(words[5]);
    if (shared < 0 || shared > limits_.shared_bytes) wrong("takes more shared memory than a block has");
    if (words[7] == "?") return wrong("has arguments that the runtime could not read");
    for (std::size_t i = 7; i < words.size(); ++i) argument(words[i]);
  }

  // Bytes from the most significant; an address lies at a multiple of eight from the least significant end. A word of a
  // struct whose lower half is a small number is two numbers, or one and padding that holds what was there before.
  void argument(std::string_view text) {
    constexpr std::size_t kDigits = 16;
    constexpr std::uint64_t kLowerHalf = 0xFFFF'FFFF, kSmall = 4096;
    const bool pointer = text.starts_with('*');
    if (pointer) text.remove_prefix(1);
    const bool structure = text.size() > kDigits;
    for (std::size_t end = text.size(); end >= kDigits; end -= kDigits) {
      const std::uint64_t value = hexadecimal(text.substr(end - kDigits, kDigits));
      if (structure && (value & kLowerHalf) < kSmall) continue;
      if (pointer || in_a_segment(value)) memory(value, 1);
    }
  }

  // NAME 0xADDRESS [ROWSxCOLUMNS] N bytes
  struct Operand {
    std::string_view name;
    std::uint64_t address = 0;
    std::int64_t rows = 0, columns = 0, bytes = 0;
  };
  std::vector<Operand> read(const std::vector<std::string_view>& words) {
    std::vector<Operand> found;
    for (std::size_t i = 1; i + 2 < words.size(); ++i) {
      if (!words[i].starts_with("0x")) continue;
      Operand o{words[i - 1], hexadecimal(words[i])};
      if (const std::size_t x = words[i + 1].find('x'); x != std::string_view::npos) {
        o.rows = decimal(words[i + 1].substr(0, x));
        o.columns = decimal(words[i + 1].substr(x + 1));
        ++i;
      }
      o.bytes = decimal(words[i + 1]);
      found.push_back(o);
    }
    return found;
  }
  std::vector<Operand> operands(const std::vector<std::string_view>& words) {
    std::vector<Operand> found = read(words);
    if (found.size() < 4) wrong("has operands that the runtime did not describe");
    for (const Operand& o : found) {
      if (o.name == "workspace" && o.bytes == 0) continue;
      if (o.bytes <= 0) wrong("has an operand of no bytes");
      memory(o.address, std::max<std::int64_t>(o.bytes, 1));
    }
    return found;
  }

  // d = op(a) op(b) + c
  void product(const std::vector<std::string_view>& words) {
    const std::vector<Operand> m = operands(words);
    const auto op = std::ranges::find(words, "op");
    if (m.size() < 4 || op == words.end() || op + 1 == words.end() || (op + 1)->size() != 2)
      return wrong("is not described");
    const bool a_turned = (*(op + 1))[0] == 'T', b_turned = (*(op + 1))[1] == 'T';
    const Operand &a = m[0], &b = m[1], &c = m[2], &d = m[3];
    const std::int64_t rows = a_turned ? a.columns : a.rows, inner = a_turned ? a.rows : a.columns;
    const std::int64_t columns = b_turned ? b.rows : b.columns, other_inner = b_turned ? b.columns : b.rows;
    if (rows != d.rows || columns != d.columns || inner != other_inner || c.rows != d.rows || c.columns != d.columns)
      wrong("multiplies matrices whose sizes do not fit");
  }

  const std::vector<Extent>& segments_;
  const LaunchLimits& limits_;
  CheckedLaunches& result_;
  const Work* work_ = nullptr;
  std::string_view line_;
  std::uint64_t page_ = 0;
};

}  // namespace

CheckedLaunches check_launches(std::istream& log, const std::vector<Work>& works,
                               const std::vector<Extent>& segments_ever, const LaunchLimits& limits) {
  CheckedLaunches result;
  Checker checker(segments_ever, limits, result);
  const Work nothing{"no operation", 0, 0, {}};
  std::int64_t number = 0;
  auto work = works.begin();
  for (std::string line; std::getline(log, line); ++number) {
    while (work != works.end() && work->end_launch <= number) ++work;
    const bool of_it = work != works.end() && work->first_launch <= number;
    if (!of_it) result.wrong.push_back("a launch outside of every operation: " + line.substr(0, 400));
    checker.line(line, of_it ? *work : nothing);
  }
  if (!works.empty() && number != works.back().end_launch)
    result.wrong.push_back("the log has " + std::to_string(number) + " launches, the runtime counted " +
                           std::to_string(works.back().end_launch));
  for (const Work& w : works)
    if (w.first_launch == w.end_launch) ++result.without[w.what.substr(0, w.what.find(' '))];
  return result;
}

}  // namespace gpuplan
