// gpuplan schema: JSON Schemas, of a model file (for editors) and of the plan's JSON (for scripts).
#include <CLI/CLI.hpp>
#include <memory>

#include "estimator/report/writers.h"
#include "estimator/spec/schema.h"
#include "layers/catalog.h"
#include "tools/commands.h"
#include "tools/output_options.h"
#include "tools/words.h"

namespace gpuplan {

namespace {

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  for (const LayerDef* layer : make_catalog()) names.emplace_back(layer->name);
  return names;
}

}  // namespace

void add_schema_command(CLI::App& app, int& exit_code) {
  const auto of = std::make_shared<std::string>("model");
  CLI::App* const command = app.add_subcommand("schema", "JSON Schema of model files, or of plan's JSON");
  command->add_option("of", *of, "Of what (model)")->type_name("model|plan");
  command->callback([of, &exit_code] {
    const bool plan = choose<bool>("schema", *of, {{"model", false}, {"plan", true}});
    write_stdout(plan ? plan_json_schema() : model_json_schema(layer_names()));
    exit_code = 0;
  });
}

}  // namespace gpuplan
