#include <algorithm>
#include <unordered_map>

#include "estimator/base/excerpt.h"
#include "estimator/trace/learned_text.h"

namespace gpuplan {
namespace {

constexpr int kMaxSteps = 1'000'000;
constexpr std::size_t kMaxSections = 500'000;
constexpr std::int64_t kMostOfAVariable = 1'000'000'000;

class TraceReader {
 public:
  explicit TraceReader(const Source& source) : source_(source) { split(); }

  LearnedTrace read() {
    if (lines_.empty() || lines_[0] != kTraceFirstLine)
      throw Error(source_.name + ": a trace begins with \"" + std::string(kTraceFirstLine) + "\"");
    at_ = 1;
    while (at_ < lines_.size() && !lines_[at_].starts_with("= ")) header(lines_[at_]), ++at_;
    refuse_incomplete();
    for (; at_ < lines_.size() && !lines_[at_].starts_with("end "); ++at_) body_line();
    end();
    return std::move(trace_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const auto line = static_cast<int>(std::min(at_, lines_.empty() ? 0 : lines_.size() - 1)) + 1;
    throw Error("this trace " + what).at({.source = &source_, .line = line, .column = 1, .length = 1});
  }

  void split() {
    for (std::string_view rest = source_.text; !rest.empty();) {
      std::string_view line = take_until(rest, '\n');
      if (line.ends_with('\r')) line.remove_suffix(1);
      lines_.push_back(line);
      at_ = lines_.size() - 1;
      if (printable_text(line) != line) fail("has a control character, or bytes that are no UTF-8 text");
    }
  }

  std::int64_t number(std::string_view text, const char* what, std::int64_t least = 0) const {
    const std::optional<std::int64_t> value = parse_number(text, least);
    if (!value) fail(std::string("expects ") + what + ", not \"" + std::string(text) + "\"");
    return *value;
  }

  void header(std::string_view line);
  void run(std::string_view rest);
  void refuse_incomplete();
  void body_line();
  void end();
  void section(std::string_view rest);
  void repeat(int step, int as);
  void event(std::string_view line);
  void allocate(RunSet runs, std::string_view rest);
  void release(RunSet runs, std::string_view rest);
  void begin(int step, std::string_view phase) {
    if (++begun_ > kMaxSections) fail("has more than 500,000 phases");
    trace_.sections.push_back({.step = step, .phase = std::string(phase), .events = {}});
  }
  void push(LearnedEvent event) {
    if (++events_ > kMaxLearnedEvents) fail("has more than 4,000,000 events");
    trace_.sections.back().events.push_back(event);
  }
  std::uint32_t word(std::string_view text) {
    const auto [at, added] = words_.emplace(text, static_cast<std::uint32_t>(trace_.words.size()));
    if (added) trace_.words.emplace_back(text);
    return at->second;
  }
  std::uint32_t size(std::string_view text) {
    const auto [at, added] = sizes_.emplace(text, static_cast<std::uint32_t>(trace_.sizes.size()));
    if (added) {
      const std::optional<LearnedSize> parsed = parse_learned_size(text, trace_);
      if (!parsed)
        fail("expects a size such as 4096*" + trace_.variables[0].name + "+8, not \"" + std::string(text) + "\"");
      trace_.sizes.push_back(*parsed);
    }
    return at->second;
  }

  struct Alive {
    std::uint32_t tensor = 0;
    RunSet runs = 0;
  };

  const Source& source_;
  std::vector<std::string_view> lines_;
  std::size_t at_ = 0;
  LearnedTrace trace_;
  bool has_context_ = false, has_outside_ = false;
  std::size_t events_ = 0, begun_ = 0;  // sections count apart
  std::unordered_map<std::string_view, std::uint32_t> words_, sizes_;
  std::unordered_map<std::string_view, Alive> alive_;
  std::unordered_map<int, std::pair<std::size_t, std::size_t>> lines_of_step_;  // from, to; of those written out
};

void TraceReader::header(std::string_view line) {
  if (line.empty() || line.starts_with('#')) return;
  std::string_view rest = line;
  const std::string_view key = take_until(rest, ':');
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  if (key == "command") {
    trace_.command = rest;
  } else if (key == "gpu") {
    trace_.gpu = take_until(rest, ' ');
    std::string_view capability = take_until(rest, ' ');
    trace_.capability_major = static_cast<int>(number(take_until(capability, '.'), "a compute capability") % 1000);
    trace_.capability_minor = static_cast<int>(number(capability, "a compute capability") % 1000);
    trace_.gpu_title = rest;
  } else if (key == "torch") {
    trace_.torch = rest;
  } else if (key == "alloc_conf") {
    trace_.alloc_conf = rest;
  } else if (key == "compiled" && rest == "yes") {
    trace_.compiled = true;
  } else if (key == "rank") {
    trace_.rank = number(take_until(rest, ' '), "a rank");
    if (take_until(rest, ' ') != "of") fail("expects a rank, such as \"0 of 8\"");
    trace_.world = number(rest, "how many ranks there are");
    if (trace_.rank >= trace_.world) fail("expects a rank below how many there are");
  } else if (key == "context") {
    trace_.context_bytes = number(rest, "bytes");
    has_context_ = true;
  } else if (key == "run") {
    run(rest);
  } else if (key == "outside" && !trace_.runs.empty()) {
    const std::optional<LearnedSize> parsed = parse_learned_size(rest, trace_);
    if (!parsed) fail("expects a size");
    trace_.outside = *parsed;
    has_outside_ = true;
  } else {
    fail("expects a line such as \"run: batch=4 ...\" or \"= 0 build\" here");
  }
}

// "batch=4 seq=128 requested=1 allocated=2 reserved=3"
void TraceReader::run(std::string_view rest) {
  if (has_outside_) fail("has its runs before \"outside:\"");
  if (trace_.runs.size() == kMaxTraceRuns) fail("has more than 64 runs");
  std::vector<std::pair<std::string_view, std::int64_t>> fields;
  while (!rest.empty()) {
    std::string_view value = take_until(rest, ' ');
    const std::string_view name = take_until(value, '=');
    fields.emplace_back(name, number(value, "NAME=NUMBER"));
  }
  if (fields.size() < 4 || fields.size() > 3 + kMaxTraceVariables) fail("expects one or two variables and three peaks");
  const std::size_t variables = fields.size() - 3;
  if (fields[variables].first != "requested" || fields[variables + 1].first != "allocated" ||
      fields[variables + 2].first != "reserved")
    fail("expects requested, allocated and reserved after the variables");
  if (trace_.runs.empty())
    for (std::size_t v = 0; v < variables; ++v) trace_.variables.push_back({std::string(fields[v].first), {}});
  if (trace_.variables.size() != variables) fail("expects every run to have the same variables");
  std::vector<std::int64_t> values;
  for (std::size_t v = 0; v < variables; ++v) {
    const auto& [name, value] = fields[v];
    if (value < 1 || value > kMostOfAVariable) fail("expects values from 1 to 1,000,000,000");
    if (!is_variable_name(name)) fail("expects variables with names of letters");
    if (trace_.variables[v].name != name) fail("expects every run to have the same variables");
    std::vector<std::int64_t>& known = trace_.variables[v].values;
    const auto place = std::ranges::lower_bound(known, value);
    if (place == known.end() || *place != value) known.insert(place, value);
    values.push_back(value);
  }
  if (trace_.variables.size() == 2 && trace_.variables[0].name == trace_.variables[1].name)
    fail("has one variable twice");
  if (std::ranges::find(trace_.runs, values) != trace_.runs.end()) fail("has a run twice");
  trace_.runs.push_back(std::move(values));
  trace_.peaks.push_back({.requested_bytes = fields[variables].second,
                          .allocated_bytes = fields[variables + 1].second,
                          .reserved_bytes = fields[variables + 2].second});
}

void TraceReader::refuse_incomplete() {
  if (trace_.runs.empty()) fail("has no line \"run: ...\" before its events");
  if (!has_context_) fail("has no line \"context: BYTES\" before its events");
  if (!has_outside_) fail("has no line \"outside: SIZE\" before its events");
}

void TraceReader::body_line() {
  const std::string_view line = lines_[at_];
  if (line.empty() || line.starts_with('#')) return;
  if (line.starts_with("= ")) return section(line.substr(2));
  event(line);
}

// "end 6402": a file that is cut short is none.
void TraceReader::end() {
  if (at_ == lines_.size()) fail("is cut short: its last line says how many events it has, as in \"end 6402\"");
  const std::int64_t events = number(lines_[at_].substr(4), "the number of its events");
  if (events != static_cast<std::int64_t>(events_))
    fail("has " + std::to_string(events_) + " events, and its end says " + std::to_string(events));
  for (++at_; at_ < lines_.size(); ++at_)
    if (!lines_[at_].empty()) fail("continues after its end");
}

// "2 forward", or "3 as 2"
void TraceReader::section(std::string_view rest) {
  const auto step = static_cast<int>(number(take_until(rest, ' '), "the number of a step"));
  if (step > kMaxSteps || rest.empty()) fail("expects a step and its phase, as in \"= 2 forward\"");
  const bool goes_on = !trace_.sections.empty() && trace_.sections.back().step == step;
  if (!trace_.sections.empty() && trace_.sections.back().step > step) fail("goes back to an earlier step");
  if (rest.starts_with("as ")) {
    const std::int64_t as = number(rest.substr(3), "the number of a step");
    if (goes_on || as >= step || !lines_of_step_.contains(static_cast<int>(as)))
      fail("repeats a step that is not written out");
    return repeat(step, static_cast<int>(as));
  }
  auto& range = lines_of_step_[step];
  if (!goes_on)
    range.first = at_;
  else if (range.second == 0)
    fail("goes on with a repeated step");
  // The step's lines end where the next one's begin.
  range.second = at_ + 1;
  while (range.second < lines_.size() && !lines_[range.second].starts_with("= ")) ++range.second;
  begin(step, rest);
}

void TraceReader::repeat(int step, int as) {
  const auto [from, to] = lines_of_step_[as];
  const std::size_t here = at_;
  for (at_ = from; at_ < to; ++at_) {
    const std::string_view line = lines_[at_];
    if (line.empty() || line.starts_with('#')) continue;
    if (!line.starts_with("= ")) {
      event(line);
      continue;
    }
    std::string_view phase = line.substr(2);
    take_until(phase, ' ');
    begin(step, phase);
  }
  at_ = here;
}

void TraceReader::event(std::string_view line) {
  std::string_view rest = line.substr(1);
  RunSet runs = trace_.all_runs();
  const std::string_view mark = take_until(rest, ' ');
  if (!mark.empty()) {
    const std::optional<RunSet> some = mark.starts_with('@') ? parse_runs(mark.substr(1), trace_) : std::nullopt;
    if (!some) fail("expects runs after @, from 1 to " + std::to_string(trace_.runs.size()));
    runs = *some;
  }
  switch (line.front()) {
    case '+': return allocate(runs, rest);
    case '-': return release(runs, rest);
    case '!':
      if (rest.empty()) return push({.kind = EventKind::empty_cache, .tensor = 0, .runs = runs});
      break;
    default: break;
  }
  fail("expects an event here: + NAME SIZE PLACE, - NAME ..., !, or = STEP PHASE");
}

void TraceReader::allocate(RunSet runs, std::string_view rest) {
  const std::string_view name = take_until(rest, ' ');
  const std::uint32_t bytes = size(take_until(rest, ' '));
  std::int64_t stream = 0;
  if (rest.starts_with("stream=")) {
    stream = number(take_until(rest, ' ').substr(7), "the number of a stream");
    if (stream > 1 << 20) fail("has too many streams");
  }
  const auto tensor = static_cast<std::uint32_t>(trace_.tensors.size());
  if (name.empty() || !alive_.emplace(name, Alive{tensor, runs}).second)
    fail("allocates \"" + std::string(name) + "\" again before it is free");
  trace_.tensors.push_back({.name = word(name.substr(0, name.rfind('.'))),
                            .place = word(rest),
                            .size = bytes,
                            .stream = static_cast<std::int32_t>(stream)});
  push({.kind = EventKind::allocate, .tensor = tensor, .runs = runs});
}

void TraceReader::release(RunSet runs, std::string_view rest) {
  if (rest.empty()) fail("frees nothing");
  while (!rest.empty()) {
    const std::string_view name = take_until(rest, ' ');
    const auto found = alive_.find(name);
    if (found == alive_.end() || (found->second.runs & runs) != runs)
      fail("frees \"" + std::string(name) + "\", which is not allocated");
    push({.kind = EventKind::free, .tensor = found->second.tensor, .runs = runs});
    found->second.runs &= ~runs;
    if (found->second.runs == 0) alive_.erase(found);
  }
}

}  // namespace

LearnedTrace read_learned_trace(const Source& source) { return TraceReader(source).read(); }

}  // namespace gpuplan
