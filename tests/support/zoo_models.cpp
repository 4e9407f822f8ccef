#include "tests/support/zoo_models.h"

#include <fstream>
#include <memory>
#include <sstream>

#include "estimator/device/read_gpu.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"

namespace gpuplan {
namespace {

std::shared_ptr<const Source> file(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << in.rdbuf();
  auto source = std::make_shared<Source>();
  source->name = path;
  source->text = text.str();
  return source;
}

}  // namespace

Model model_in_file(const std::string& path, const std::vector<Variable>& set) {
  SpecOptions options;  // `extends: NAME` is a model of the zoo
  options.set = set;
  options.open = [](std::string_view name, std::string_view) {
    return file(std::string(GPUPLAN_SOURCE_DIR) + "/configs/models/" + std::string(name));
  };
  return read_model(file(std::string(GPUPLAN_SOURCE_DIR) + "/" + path + ".yaml"), options);
}

Model zoo_model(const std::string& name) { return model_in_file("configs/models/" + name); }

Report plan_zoo(const std::string& name, const RunConfig& run, const std::string& gpu) {
  return plan_spec("configs/models/" + name, run, gpu);
}

Report plan_spec(const std::string& path, const RunConfig& run, const std::string& gpu,
                 const std::vector<Variable>& set) {
  const Model model = model_in_file(path, set);
  if (gpu.empty()) return plan(model, make_catalog(), run);
  const Gpu device = read_gpu(*file(std::string(GPUPLAN_SOURCE_DIR) + "/configs/gpus/" + gpu + ".yaml"));
  return plan(model, make_catalog(), run, &device);
}

}  // namespace gpuplan
