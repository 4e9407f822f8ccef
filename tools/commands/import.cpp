// gpuplan import SRC: a model that is not written in YAML, as a spec. gpuplan import --check WEIGHTS [MODEL]: whether a
// checkpoint has the parameters that are planned.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "estimator/spec/read.h"
#include "tools/answers/check_weights.h"
#include "tools/answers/draft.h"
#include "tools/commands/commands.h"
#include "tools/options/commit_model.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

struct ImportOptions {
  std::string source, file, weights;
  std::vector<std::string> set, inputs, arguments;
  bool force = false;
};

// What is downloaded together lies together.
std::string model_beside(const std::string& weights) {
  const std::filesystem::path config = std::filesystem::path(weights).parent_path() / "config.json";
  if (!exists(config.string()))
    throw Error("--check needs a model, and there is no config.json next to " + weights, ErrorKind::usage)
        .help("gpuplan import --check model.safetensors config.json");
  return config.string();
}

int run_check(const ImportOptions& options) {
  if (!options.file.empty()) throw Error("--check writes no file: leave out -o, or --check", ErrorKind::usage);
  RunOptions run;
  run.model = options.source.empty() ? model_beside(options.weights) : options.source;
  run.set = options.set;
  const StoredTensors stored = read_safetensors(options.weights);
  const Model model = load_model(run);
  const WeightCheck check = check_weights(planned_parameters(model), stored);
  write_stdout(weight_check_text(check, stored, options.weights, run.model));
  return check.equal() ? 0 : 1;
}

int run_import(const ImportOptions& options) {
  if (!options.weights.empty()) return run_check(options);
  if (options.source.empty())
    throw Error("no file to import is given", ErrorKind::usage).help("gpuplan import config.json -o model.yaml");
  refuse_learned_trace({options.source, nullptr});
  if (!options.file.empty() && options.file != "-")
    refuse_unwritable({{.path = options.file, .force = true}});  // write_draft() looks at its text
  RunOptions run;
  run.model = options.source;
  run.set = options.set;
  run.inputs = options.inputs;
  run.arguments = options.arguments;
  const WrittenModel written = open_model(run);
  const std::vector<Variable>& set = written.options.set;
  const std::shared_ptr<const Source>& source = written.source;
  const std::string& spec = source->text;
  if (!set.empty())
    throw Error("the model has no dynamic dimension " + set.front().name, ErrorKind::usage)
        .help("variables of the spec are set when it is planned: gpuplan plan --set NAME=VALUE");
  (void)read_model(source, {.set = {}, .open = open_extended});  // what is handed on can be read
  write_draft(options.file, spec, options.force);
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* const command =
      app.add_subcommand("import", "Converts a config.json, an ONNX file or a model in Python to a model spec");
  command
      ->add_option(
          "source", options->source,
          "A Hugging Face config.json, an ONNX file, or timm:NAME, torchvision:NAME, hf:NAME, FILE.py:CALLABLE")
      ->type_name("SRC");
  command->add_option("-o,--output", options->file, "File to write (standard output)")->type_name("FILE");
  command->add_flag("--force", options->force, "Replaces a file with different contents");
  command->add_option("--set", options->set, "Value of a dynamic dimension of an ONNX file")->type_name("NAME=VALUE");
  command
      ->add_option("--check", options->weights,
                   "Compares a safetensors file or index with the model's parameters; exit code 1 if they differ")
      ->type_name("FILE");
  add_python_options(*command, options->inputs, options->arguments);
  command->callback([options, &exit_code] { exit_code = run_import(*options); });
}

}  // namespace gpuplan
