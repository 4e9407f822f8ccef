// gpuplan schema: JSON Schemas, of a model file (for editors) and of what commands write (for scripts), and the form of
// learned traces, which are text.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

#include "estimator/budget/read_budget.h"
#include "estimator/report/check_report.h"
#include "estimator/report/diff_report.h"
#include "estimator/report/fit_table.h"
#include "estimator/report/lengths_report.h"
#include "estimator/report/replay_report.h"
#include "estimator/report/serve_report.h"
#include "estimator/report/serving_offers.h"
#include "estimator/report/snapshot_report_writers.h"
#include "estimator/report/stages_text.h"
#include "estimator/report/sweep_table.h"
#include "estimator/report/writers.h"
#include "estimator/spec/schema.h"
#include "estimator/trace/learned_text.h"
#include "layers/catalog.h"
#include "tools/check/settings.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/options/words.h"
#include "validate/shadow/host/run_report.h"
#include "validate/validation.h"

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
  CLI::App* const command =
      app.add_subcommand("schema", "Prints the JSON Schema of a file or of a command's JSON, or a trace's format");
  command->add_option("of", *of, "Which format (model)")
      ->type_name("model|budget|plan|stages|lengths|check|diff|fit|sweep|snapshot|replay|shadow|validate|trace");
  command->callback([of, &exit_code] {
    const auto schema =
        choose<std::function<std::string()>>("schema", *of,
                                             {{"model", [] { return model_json_schema(layer_names()); }},
                                              {"budget", [] { return budget_json_schema(run_keys()); }},
                                              {"plan", plan_json_schema},
                                              {"stages", stages_json_schema},
                                              {"lengths", lengths_json_schema},
                                              {"check", check_json_schema},
                                              {"diff", diff_json_schema},
                                              {"fit", fit_json_schema},
                                              {"sweep", sweep_json_schema},
                                              {"snapshot", snapshot_json_schema},
                                              {"replay", replay_json_schema},
                                              {"serve", serve_json_schema},
                                              {"serve-offers", serving_offers_json_schema},
                                              {"shadow", shadow::run_json_schema},
                                              {"validate", validation_json_schema},
                                              {"trace", [] { return std::string(trace_form()); }}});
    write_stdout(schema());
    exit_code = 0;
  });
}

}  // namespace gpuplan
