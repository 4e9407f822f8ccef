#include "estimator/trace/align_runs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "estimator/trace/learned_text.h"
#include "estimator/trace/match_lists.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kAbsent = -1;

// An allocation of one run or several.
struct Tensor {
  std::uint32_t name = 0, place = 0;
  std::int32_t stream = 0;
  std::vector<std::int64_t> bytes;                            // by run
  std::vector<std::optional<CudnnConvolution>> workspace_of;  // likewise
};

class Aligner {
 public:
  Aligner(std::span<const RecordedRun> runs, LearnedTrace& trace) : runs_(runs), trace_(trace) {}

  void run() {
    refuse_other_sections();
    for (const RecordedSection& section : runs_[0].sections)
      trace_.sections.push_back({.step = section.step, .phase = section.phase, .events = {}});
    merged_of_.resize(runs_.size());
    for (std::size_t r = 0; r < runs_.size(); ++r) merged_of_[r].resize(runs_[r].tensors);
    for (std::size_t s = 0; s < trace_.sections.size(); ++s)
      for (std::size_t r = 0; r < runs_.size(); ++r) merge(s, r);
    std::erase_if(trace_.sections, [](const LearnedSection& section) { return section.events.empty(); });
    for (const RecordedRun& run : runs_) trace_.peaks.push_back(run.peak);
    std::vector<std::int64_t> outside;
    for (const RecordedRun& run : runs_) outside.push_back(run.outside_bytes);
    trace_.outside = learned(outside, std::vector<std::optional<CudnnConvolution>>(runs_.size()));
    fit();
  }

 private:
  void refuse_other_sections() const;
  void merge(std::size_t section, std::size_t run);
  std::vector<LearnedEvent> own_events(const std::vector<RecordedEvent>& events, std::size_t run);
  int likeness(const Tensor& tensor, const RecordedEvent& event, std::size_t run);
  LearnedSize learned(const std::vector<std::int64_t>& bytes,
                      std::span<const std::optional<CudnnConvolution>> of) const;
  void fit();
  std::uint32_t word(const std::string& text) {
    const auto [at, added] = words_.emplace(text, static_cast<std::uint32_t>(trace_.words.size()));
    if (added) trace_.words.push_back(text);
    return at->second;
  }

  std::span<const RecordedRun> runs_;
  LearnedTrace& trace_;
  std::vector<Tensor> tensors_;
  std::vector<std::vector<std::uint32_t>> merged_of_;  // by run, by its tensors
  std::unordered_map<std::string, std::uint32_t> words_;
};

std::string section_name(const RecordedSection& section) {
  return "step " + std::to_string(section.step) + " " + section.phase;
}

void Aligner::refuse_other_sections() const {
  const auto& first = runs_[0].sections;
  for (const RecordedRun& run : runs_.subspan(1)) {
    const std::size_t shared = std::min(first.size(), run.sections.size());
    std::size_t at = 0;
    while (at < shared && first[at].step == run.sections[at].step && first[at].phase == run.sections[at].phase) ++at;
    if (at == first.size() && at == run.sections.size()) continue;
    const auto where = [&](const auto& sections) {
      return at < sections.size() ? "goes on with " + section_name(sections[at]) : "ends";
    };
    throw Error("the runs take different steps: where " + runs_[0].name + " " + where(first) + ", " + run.name + " " +
                where(run.sections))
        .help("--steps N ends every run after the same number of optimizer steps");
  }
}

// 0: not the same allocation; 1: of the same name and place; 3: also of the same size, or in proportion.
int Aligner::likeness(const Tensor& tensor, const RecordedEvent& event, std::size_t run) {
  if (tensor.stream != event.stream || trace_.words[tensor.name] != event.name ||
      trace_.words[tensor.place] != event.place)
    return 0;
  std::size_t known = 0;
  while (tensor.bytes[known] == kAbsent) ++known;
  const auto ratio =
      static_cast<double>(event.bytes) / static_cast<double>(std::max<std::int64_t>(tensor.bytes[known], 1));
  const auto of = [&](std::size_t variable) {
    return variable < trace_.variables.size()
               ? static_cast<double>(trace_.runs[run][variable]) / static_cast<double>(trace_.runs[known][variable])
               : 1.0;
  };
  const double x = of(0), y = of(1);
  for (const double expected : {1.0, x, y, x * y, y * y, x * y * y})
    if (std::abs(ratio - expected) < 1e-9 * expected) return 3;
  return 1;
}

// The events of one run's section as merged ones; their allocations are matched with those that are there already, or
// added.
std::vector<LearnedEvent> Aligner::own_events(const std::vector<RecordedEvent>& events, std::size_t run) {
  std::vector<LearnedEvent> own;
  for (const RecordedEvent& event : events)
    own.push_back({.kind = event.kind,
                   .tensor = event.kind == EventKind::empty_cache ? 0 : merged_of_[run][event.tensor],
                   .runs = RunSet{1} << run});
  return own;
}

void Aligner::merge(std::size_t section, std::size_t run) {
  std::vector<LearnedEvent>& merged = trace_.sections[section].events;
  const RecordedSection& recorded = runs_[run].sections[section];
  std::vector<const RecordedEvent*> theirs;
  for (const RecordedEvent& event : recorded.events)
    if (event.kind == EventKind::allocate) theirs.push_back(&event);
  std::vector<std::uint32_t> ours;
  for (const LearnedEvent& event : merged)
    if (event.kind == EventKind::allocate) ours.push_back(event.tensor);
  const auto alike = [&](std::size_t i, std::size_t k) { return likeness(tensors_[ours[i]], *theirs[k], run); };
  const auto pairs = match_lists(ours.size(), theirs.size(), alike);
  if (!pairs)
    throw Error("the allocations of " + section_name(recorded) + " cannot be aligned: " + runs_[0].name + " makes " +
                std::to_string(ours.size()) + " and " + runs_[run].name + " " + std::to_string(theirs.size()));
  std::vector<std::uint32_t> found(theirs.size(), UINT32_MAX);
  for (const auto& [i, k] : *pairs) found[k] = ours[i];
  for (std::size_t k = 0; k < theirs.size(); ++k) {
    if (found[k] == UINT32_MAX) {
      found[k] = static_cast<std::uint32_t>(tensors_.size());
      tensors_.push_back({word(theirs[k]->name), word(theirs[k]->place), theirs[k]->stream,
                          std::vector<std::int64_t>(runs_.size(), kAbsent),
                          std::vector<std::optional<CudnnConvolution>>(runs_.size())});
    }
    tensors_[found[k]].bytes[run] = theirs[k]->bytes;
    tensors_[found[k]].workspace_of[run] = theirs[k]->workspace_of;
    merged_of_[run][theirs[k]->tensor] = found[k];
  }
  merged = merge_events(merged, own_events(recorded.events, run));
}

LearnedSize Aligner::learned(const std::vector<std::int64_t>& bytes,
                             std::span<const std::optional<CudnnConvolution>> of) const {
  RecordedPoints points = bytes;
  std::ranges::replace(points, kAbsent, std::int64_t{0});
  // First: a workspace may seem to grow with the batch until cuDNN takes another engine.
  if (auto workspace = fit_workspace(trace_.variables, trace_.runs, of, points, gpu_of(trace_)))
    return {.value = std::move(*workspace)};
  const auto present = std::ranges::find_if(bytes, [](std::int64_t b) { return b != kAbsent; });
  LearnedSize size;
  if (std::ranges::all_of(bytes, [&](std::int64_t b) { return b == kAbsent || b == *present; })) {
    SizeFunction constant;
    constant.coefficient[0][0] = *present;
    size.value = constant;
    return size;
  }
  if (std::ranges::find(bytes, kAbsent) == bytes.end())
    if (const auto fitted = fit_size(trace_.variables, trace_.runs, bytes)) {
      size.value = fitted->function;
      size.checked = fitted->checked;
      return size;
    }
  size.value = std::move(points);
  return size;
}

void Aligner::fit() {
  std::map<std::string, std::uint32_t> known;  // by the file's text
  for (const Tensor& tensor : tensors_) {
    const LearnedSize size = learned(tensor.bytes, tensor.workspace_of);
    const auto [at, added] =
        known.emplace(text_of(size, trace_.variables), static_cast<std::uint32_t>(trace_.sizes.size()));
    if (added) trace_.sizes.push_back(size);
    trace_.tensors.push_back({.name = tensor.name, .place = tensor.place, .size = at->second, .stream = tensor.stream});
  }
}

}  // namespace

void align_runs(std::span<const RecordedRun> runs, LearnedTrace& trace) { Aligner(runs, trace).run(); }

}  // namespace gpuplan
