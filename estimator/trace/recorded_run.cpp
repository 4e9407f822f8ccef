#include "estimator/trace/recorded_run.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "estimator/base/error.h"
#include "estimator/base/excerpt.h"
#include "estimator/trace/learned_text.h"

namespace gpuplan {
namespace {

constexpr std::size_t kMaxRecordedEvents = 4'000'000;

class RunReader {
 public:
  explicit RunReader(const std::string& name) { run_.name = name, run_.sections.push_back({0, "build", {}}); }

  void add(std::string_view line) {
    ++number_;
    if (ended_) fail("nothing follows the end");
    std::array<std::string_view, 5> fields;
    std::size_t count = 0;
    for (bool more = true; more; ++count) {
      if (count == fields.size()) fail("has too many fields");
      const std::size_t tab = line.find('\t');
      fields[count] = line.substr(0, tab);
      more = tab != std::string_view::npos;
      line.remove_prefix(more ? tab + 1 : line.size());
    }
    const std::string_view kind = fields[0];
    if (kind == "a" && count == 5) return allocate(fields);
    if (kind == "f" && count == 2) return release(integer(fields[1]));
    if (kind == "m" && count == 3) return enter(static_cast<int>(integer(fields[1], INT32_MAX)), fields[2]);
    if (kind == "e" && count == 1) return push({.kind = EventKind::empty_cache});
    if (kind == "end" && count == 5) return end(fields);
    fail("is not an event");
  }

  RecordedRun finish() {
    if (!ended_) throw Error(run_.name + ": the record of its allocations has no end");
    run_.tensors = static_cast<std::uint32_t>(alive_.size());
    return std::move(run_);
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(run_.name + ": line " + std::to_string(number_) + " of the record of its allocations " + what);
  }

  std::int64_t integer(std::string_view text, std::int64_t most = std::int64_t{1} << 53) const {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > most)
      fail("has no such number");
    return value;
  }

  // A name of a script's, as one word of a line.
  static std::string word(std::string_view name) {
    std::string text = printable_text(name);
    std::ranges::replace(text, ' ', '_');
    return text;
  }

  void push(RecordedEvent event) {
    if (++events_ > kMaxRecordedEvents) fail("is one event too many: 4,000,000 are read");
    run_.sections.back().events.push_back(std::move(event));
  }

  void allocate(const std::array<std::string_view, 5>& fields) {
    push({.kind = EventKind::allocate,
          .tensor = static_cast<std::uint32_t>(alive_.size()),
          .bytes = integer(fields[1]),
          .stream = static_cast<std::int32_t>(integer(fields[2], 1 << 20)),
          .name = word(fields[3]),
          .place = printable_text(fields[4])});
    alive_.push_back(true);
  }

  void release(std::int64_t tensor) {
    const auto at = static_cast<std::size_t>(tensor);
    if (at >= alive_.size() || !alive_[at]) fail("frees what is not allocated");
    alive_[at] = false;
    push({.kind = EventKind::free, .tensor = static_cast<std::uint32_t>(at)});
  }

  void enter(int step, std::string_view phase) {
    if (phase.empty()) fail("names no phase");
    run_.sections.push_back({step, printable_text(phase), {}});
  }

  void end(const std::array<std::string_view, 5>& fields) {
    run_.peak = {.requested_bytes = integer(fields[3]),
                 .allocated_bytes = integer(fields[2]),
                 .reserved_bytes = integer(fields[1])};
    if (integer(fields[4]) > 0)
      throw Error(run_.name +
                  ": PyTorch's allocator ran out of memory and released its cache, which a trace cannot represent")
          .help("learn on a GPU with more memory, such as --gpu h200, or at smaller values");
    ended_ = true;
  }

  RecordedRun run_;
  std::vector<bool> alive_;  // by tensor
  std::size_t events_ = 0;
  int number_ = 0;
  bool ended_ = false;
};

}  // namespace

RecordedRun read_recorded_run(const std::string& name, std::string_view text) {
  RunReader reader(name);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    reader.add(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return reader.finish();
}

namespace {

std::optional<DType> cudnn_type(std::int64_t number) {
  switch (number) {  // cudnnDataType_t
    case 0: return DType::fp32;
    case 1: return DType::fp64;
    case 2: return DType::fp16;
    case 9: return DType::bf16;
    default: return std::nullopt;
  }
}

// "forward 0 nchw 4 3 224 ..."; nothing for "", which is no convolution in two dimensions, and for other types.
std::optional<CudnnConvolution> convolution_of(std::string_view line) {
  const Error bad("a line of workspaces is none");
  CudnnConvolution convolution;
  const std::string_view pass = take_until(line, '\t');
  if (pass.empty()) return std::nullopt;
  convolution.pass = pass == "forward"         ? CudnnConvolution::Pass::forward
                     : pass == "backward_data" ? CudnnConvolution::Pass::backward_data
                                               : CudnnConvolution::Pass::backward_filter;
  const std::optional<std::int64_t> type = parse_number(take_until(line, '\t'));
  convolution.channels_last = take_until(line, '\t') == "nhwc";
  for (std::int64_t* const number : convolution_numbers(convolution)) {
    const std::optional<std::int64_t> value = parse_number(take_until(line, '\t'));
    if (!value) throw bad;
    *number = *value;
  }
  if (!type || !line.empty()) throw bad;
  const std::optional<DType> dtype = cudnn_type(*type);
  if (!dtype) return std::nullopt;
  convolution.dtype = *dtype;
  return convolution;
}

}  // namespace

void name_workspaces(RecordedRun& run, std::string_view lines) {
  std::vector<RecordedEvent*> allocations;  // that are freed before anything else happens, as a workspace is
  for (RecordedSection& section : run.sections)
    for (std::size_t i = 0; i + 1 < section.events.size(); ++i)
      if (section.events[i].kind == EventKind::allocate && section.events[i + 1].kind == EventKind::free &&
          section.events[i + 1].tensor == section.events[i].tensor)
        allocations.push_back(&section.events[i]);
  auto next = allocations.begin();
  while (!lines.empty()) {
    std::string_view line = take_until(lines, '\n');
    const std::optional<std::int64_t> bytes = parse_number(take_until(line, '\t'));
    if (!bytes) throw Error(run.name + ": a line of workspaces begins with no size");
    const std::optional<CudnnConvolution> convolution = convolution_of(line);
    // The next of that size: PyTorch asks for a workspace right before the convolution runs.
    const auto found =
        std::find_if(next, allocations.end(), [&](const RecordedEvent* event) { return event->bytes == *bytes; });
    if (found == allocations.end()) continue;
    (*found)->workspace_of = convolution;
    next = found + 1;
  }
}

}  // namespace gpuplan
