#include "tools/options/python_step.h"

#include <algorithm>
#include <string_view>

namespace gpuplan {
namespace {

// The GPU of a plan without --gpu, whose name the simulation has.
constexpr const char* kSimulated = "a100-80gb";

// pixel_values:images*3xsizexsize names images and size.
bool names_a_size(const std::string& input, const std::string& name) {
  if (input.find('=') != std::string::npos) return false;
  for (std::size_t at = input.find(name); at != std::string::npos; at = input.find(name, at + 1)) {
    constexpr std::string_view kBetween = "x*:";
    const std::size_t end = at + name.size();
    if ((at == 0 || kBetween.find(input[at - 1]) != std::string_view::npos) &&
        (end == input.size() || kBetween.find(input[end]) != std::string_view::npos))
      return true;
  }
  return false;
}

bool is_size(const RunOptions& options, const std::string& name) {
  if (options.inputs.empty()) return options.model.starts_with("hf:") && (name == "seq" || name == "images");
  return std::ranges::any_of(options.inputs, [&](const std::string& input) { return names_a_size(input, name); });
}

}  // namespace

PythonModel python_model(const RunOptions& options, std::vector<Variable>& set) {
  PythonModel model{options.model, options.inputs, options.arguments, {}};
  std::erase_if(set, [&](const Variable& v) {
    if (!is_size(options, v.name)) return false;
    model.sizes.push_back(v.name + "=" + std::to_string(v.value));
    return true;
  });
  return model;
}

ModelStep python_step(const RunOptions& options) {
  ModelStep step{.mode = options.mode,
                 .optimizer = options.optimizer,
                 .amp = options.amp,
                 .precision = options.precision,
                 .channels_last = options.layout == "nhwc",
                 .gpu = kSimulated};
  if (const std::optional<Gpu> gpu = gpu_called(options.gpu)) step.gpu = gpu->name;
  return step;
}

}  // namespace gpuplan
