// gpuplan import SRC: a model that is not written in YAML, as a spec.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/commands.h"
#include "tools/output_options.h"
#include "tools/read_source.h"

namespace gpuplan {

namespace {

struct ImportOptions {
  std::string source, file;
  std::vector<std::string> set;
};

int run_import(const ImportOptions& options) {
  if (options.source.empty())
    throw Error("nothing to import is named", ErrorKind::usage).help("gpuplan import config.json -o model.yaml");
  if (!options.file.empty()) refuse_unwritable({{.path = options.file}});
  std::vector<Variable> set;
  for (const std::string& text : options.set) set.push_back(read_variable(text));
  const std::string spec = open_model(options.source, set)->text;
  if (!set.empty())
    throw Error("the model has no dynamic dimension " + set.front().name, ErrorKind::usage)
        .help("a variable of a spec is set where it is planned");
  if (options.file.empty())
    write_stdout(spec);
  else
    write_file(options.file, spec);
  return 0;
}

}  // namespace

void add_import_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ImportOptions>();
  CLI::App* const command = app.add_subcommand("import", "A model that is not written in YAML, as a spec");
  command->add_option("source", options->source, "A config.json of Hugging Face's, or an ONNX file")->type_name("SRC");
  command->add_option("-o,--output", options->file, "The file; standard output otherwise")->type_name("FILE");
  command->add_option("--set", options->set, "A size that the file leaves open, of an ONNX file")
      ->type_name("NAME=VALUE");
  command->callback([options, &exit_code] { exit_code = run_import(*options); });
}

}  // namespace gpuplan
