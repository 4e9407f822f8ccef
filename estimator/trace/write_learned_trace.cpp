#include <set>
#include <unordered_map>

#include "estimator/base/excerpt.h"
#include "estimator/trace/learned_text.h"

namespace gpuplan {
namespace {

constexpr const char* kExplained =
    "# Written by gpuplan shadow --learn. + allocates: name, requested bytes, the script's line; - frees; ! empties "
    "the\n"
    "# cache. @1,3: only these runs have it. [..]: the recorded sizes, which no function fits. ?: not verified.\n"
    "# forward:fp32:nchw:..: cuDNN's workspace for a convolution of n,c,h,w,k,r,s,p,q, strides, paddings,\n"
    "# dilations and groups: gpuplan's rule gives it, except at the recorded values, whose sizes follow.\n";

// A tensor is called by the word of its allocation and the lowest number that no living one of that word has, so that
// steps that do the same have the same lines.
class Names {
 public:
  explicit Names(const LearnedTrace& trace) : trace_(trace), left_(trace.tensors.size()) {}

  std::string born(const LearnedEvent& event) {
    const std::uint32_t word = trace_.tensors[event.tensor].name;
    auto& [free, used] = numbers_[word];
    const int number = free.empty() ? ++used : *free.begin();
    free.erase(number);
    number_of_[event.tensor] = number;
    left_[event.tensor] = event.runs;
    return name_of(event.tensor);
  }
  std::string dies(const LearnedEvent& event) {
    const std::string name = name_of(event.tensor);
    left_[event.tensor] &= ~event.runs;
    if (left_[event.tensor] == 0) numbers_[trace_.tensors[event.tensor].name].free.insert(number_of_[event.tensor]);
    return name;
  }

 private:
  struct Numbers {
    std::set<int> free;
    int used = 0;
  };
  std::string name_of(std::uint32_t tensor) {
    return trace_.words[trace_.tensors[tensor].name] + "." + std::to_string(number_of_[tensor]);
  }

  const LearnedTrace& trace_;
  std::vector<RunSet> left_;  // the runs in which it is still alive
  std::unordered_map<std::uint32_t, Numbers> numbers_;
  std::unordered_map<std::uint32_t, int> number_of_;
};

// The reader takes printable lines only.
std::string header(const LearnedTrace& trace) {
  std::string text = std::string(kTraceFirstLine) + "\n" + kExplained;
  text += "command: " + printable_text(trace.command) + "\n";
  text += "gpu: " + trace.gpu + " " + std::to_string(trace.capability_major) + "." +
          std::to_string(trace.capability_minor) + " " + printable_text(trace.gpu_title) + "\n";
  text += "torch: " + printable_text(trace.torch) + "\n";
  if (!trace.alloc_conf.empty()) text += "alloc_conf: " + printable_text(trace.alloc_conf) + "\n";
  if (trace.compiled) text += "compiled: yes\n";
  if (trace.world > 1) text += "rank: " + std::to_string(trace.rank) + " of " + std::to_string(trace.world) + "\n";
  text += "context: " + std::to_string(trace.context_bytes) + "\n";
  for (std::size_t r = 0; r < trace.runs.size(); ++r)
    text += "run: " + values_text(trace.variables, trace.runs[r]) +
            " requested=" + std::to_string(trace.peaks[r].requested_bytes) +
            " allocated=" + std::to_string(trace.peaks[r].allocated_bytes) +
            " reserved=" + std::to_string(trace.peaks[r].reserved_bytes) + "\n";
  return text + "outside: " + text_of(trace.outside, trace.variables) + "\n";
}

std::string allocation(const LearnedTrace& trace, const LearnedEvent& event, Names& names) {
  const LearnedTensor& tensor = trace.tensors[event.tensor];
  std::string line = "+" + runs_text(event.runs, trace) + " " + names.born(event) + " " +
                     text_of(trace.sizes[tensor.size], trace.variables);
  const std::string& place = trace.words[tensor.place];
  constexpr const char* kStream = "stream=";
  if (tensor.stream != 0 || place.starts_with(kStream)) line += " " + (kStream + std::to_string(tensor.stream));
  if (!place.empty()) line += " " + place;
  return line + "\n";
}

std::string lines_of(const LearnedTrace& trace, const LearnedSection& section, Names& names) {
  std::string text;
  const LearnedEvent* last = nullptr;  // on the line that `text` ends with
  for (const LearnedEvent& event : section.events) {
    if (event.kind == EventKind::free && last != nullptr && last->kind == EventKind::free && last->runs == event.runs) {
      text.back() = ' ';
      text += names.dies(event) + "\n";
    } else if (event.kind == EventKind::free) {
      text += "-" + runs_text(event.runs, trace) + " " + names.dies(event) + "\n";
    } else if (event.kind == EventKind::empty_cache) {
      text += "!" + runs_text(event.runs, trace) + "\n";
    } else {
      text += allocation(trace, event, names);
    }
    last = &event;
  }
  return text;
}

}  // namespace

std::string write_learned_trace(const LearnedTrace& trace) {
  std::string text = header(trace);
  Names names(trace);
  std::vector<std::pair<std::string, std::string>> last, step;  // phase and lines, of the step written last
  int last_number = -1;
  for (std::size_t s = 0; s < trace.sections.size(); ++s) {
    const LearnedSection& section = trace.sections[s];
    step.emplace_back(section.phase, lines_of(trace, section, names));
    if (s + 1 < trace.sections.size() && trace.sections[s + 1].step == section.step) continue;
    if (step == last) {
      text += "= " + std::to_string(section.step) + " as " + std::to_string(last_number) + "\n";
    } else {
      for (const auto& [phase, lines] : step) text += "= " + std::to_string(section.step) + " " + phase + "\n" + lines;
      last = step;
      last_number = section.step;
    }
    step.clear();
  }
  std::size_t events = 0;
  for (const LearnedSection& section : trace.sections) events += section.events.size();
  return text + "end " + std::to_string(events) + "\n";
}

}  // namespace gpuplan
