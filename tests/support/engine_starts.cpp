#include "tests/support/engine_starts.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <iterator>

#include "tools/answers/serving.h"
#include "tools/options/serve_options.h"

namespace gpuplan {
namespace {

const std::string kServing = std::string(GPUPLAN_SOURCE_DIR) + "/tests/serving/";

RunOptions options_of(const std::string& model, const std::string& gpu) {
  RunOptions options;
  options.model = model.starts_with("zoo:") ? model : kServing + "models/" + model + ".json";
  options.gpu = gpu;
  return options;
}

ServeSettings settings_of(const std::string& flags) {
  CLI::App app;
  ServeOptions options;
  add_serve_options(app, options);
  app.parse(flags);
  return serve_settings(options);
}

}  // namespace

std::string serving_text(const std::string& file) {
  std::ifstream in(kServing + file);
  return {std::istreambuf_iterator<char>(in), {}};
}

CsvTable serving_table(const std::string& file) { return CsvTable(Source{kServing + file, serving_text(file)}); }

ServedModel serving_model(const std::string& model, const std::string& gpu) {
  const RunOptions options = options_of(model, gpu);
  return decoder_of(published_model(options).model, *load_gpu(options));
}

EngineStart serving_start(const std::string& model, const std::string& gpu_name, const std::string& flags) {
  const RunOptions options = options_of(model, gpu_name);
  const Gpu gpu = *load_gpu(options);
  const PublishedModel published = published_model(options);
  ServeSettings settings = settings_of(flags);
  if (flags.find("--weights") == std::string::npos) settings.weights = published.weights;
  return tried_start(decoder_of(published.model, gpu), gpu, settings);
}

}  // namespace gpuplan
