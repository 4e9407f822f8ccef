#include "estimator/snapshot/snapshot_lines.h"

#include <algorithm>
#include <string_view>

#include "estimator/base/excerpt.h"

namespace gpuplan {
namespace {

bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// A line that somebody wrote: of Python, or of a model that was planned.
bool is_source(std::string_view file) {
  constexpr std::string_view kOthers[] = {".cpp", ".cc", ".h", ".cu", ".c"};
  const std::string_view name = file.substr(file.find_last_of('/') + 1);
  const bool interpreter = name.starts_with("python") && !contains(name, ".py");
  return !file.empty() && !contains(file, ".so") && file != "??" && !interpreter &&
         std::ranges::none_of(kOthers, [&](std::string_view ending) { return file.ends_with(ending); });
}

std::string_view name_in(std::string_view path) { return path.substr(path.find_last_of("/\\") + 1); }

// Or of the runtime that records without a GPU, which looks at values.
bool is_of_pytorch(std::string_view file) {
  return contains(file, "/torch/") || file.starts_with("torch/") || contains(file, "/torchvision/_") ||
         contains(file, "/runpy.py") || file.starts_with("<frozen") || name_in(file).starts_with("gpuplan_shadow_");
}

// "at::native::empty_cuda" of "at::native::empty_cuda(c10::ArrayRef<long>, ...)".
std::string_view function_in(std::string_view symbol) { return symbol.substr(0, symbol.find('(')); }

// C++ names above the allocator: what asked for the memory.
bool asks(std::string_view symbol) {
  return symbol.starts_with("at::native::") && !contains(symbol, "empty") && !contains(symbol, "resize") &&
         !contains(symbol, "allocate");
}

// "conv" of a frame in ".../torch/nn/modules/conv.py", whose frames are calls of a module; those that only pass calls
// on are none.
std::string_view module_in(std::string_view file, std::string_view function) {
  constexpr std::string_view kFolder = "torch/nn/modules/", kEnding = ".py";
  const std::size_t at = file.find(kFolder);
  if (at == file.npos || !file.ends_with(kEnding) || !contains(function, "forward")) return "";
  const std::string_view name = file.substr(at + kFolder.size(), file.size() - at - kFolder.size() - kEnding.size());
  return name == "module" || name == "container" ? "" : name;
}

SnapshotLine line_of(const Snapshot& snapshot, std::uint32_t stack) {
  SnapshotLine line;
  std::string_view kernel, first_python;
  for (const std::uint32_t number : snapshot.stack(stack)) {
    const SnapshotFrame& frame = snapshot.frames[number];
    const std::string_view file = snapshot.words[frame.file], name = snapshot.words[frame.name];
    if (contains(name, "autograd::Engine") || contains(file, "torch/autograd/") || name.ends_with(" in backward"))
      line.backward = true;
    if (contains(file, "/torch/optim/")) line.optimizer = true;
    if (const std::string_view module = module_in(file, name); line.module.empty() && !module.empty())
      line.module = printable_text("torch.nn.modules." + std::string(module));
    if (kernel.empty() && asks(name)) kernel = function_in(name);
    if (!is_source(file)) continue;
    if (first_python.empty()) first_python = file;
    if (is_of_pytorch(file)) continue;
    line.file = file;
    line.line = frame.line;
    const std::string at = std::string(name_in(file)) + ":" + std::to_string(frame.line) + " ";
    line.text = (frame.line > 0 ? at : "") + std::string(name);
    break;  // what is further out is no module of torch.nn that was called from here
  }
  if (line.text.empty() && line.backward) line.text = "backward";
  if (line.text.empty() && !kernel.empty()) line.text = "C++";
  if (line.text.empty()) line.text = stack == kNoStack ? "not recorded" : "elsewhere";
  if (line.file.empty() && !kernel.empty()) line.text += " " + std::string(kernel);
  line.text = printable_text(line.text);
  line.file = printable_text(line.file);
  return line;
}

}  // namespace

std::vector<SnapshotLine> lines_of(const Snapshot& snapshot) {
  std::vector<SnapshotLine> lines;
  lines.reserve(snapshot.stack_ends.size());
  for (std::uint32_t stack = 0; stack < snapshot.stack_ends.size(); ++stack) lines.push_back(line_of(snapshot, stack));
  // Where others have one, what has none was allocated by a thread of autograd's (stacks="python").
  if (lines.size() > 1)
    lines[kNoStack] = {.text = "backward", .file = "", .line = 0, .module = "", .backward = true, .optimizer = false};
  return lines;
}

}  // namespace gpuplan
