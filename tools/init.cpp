// gpuplan init [MODEL]: a spec to go on from.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/commands.h"
#include "tools/importers/spec_text.h"
#include "tools/output_options.h"
#include "tools/read_source.h"

namespace gpuplan {

namespace {

constexpr const char* kStarter =
    R"(# A model for gpuplan. Each line of layers: is a constructor call of torch.nn, named or not: positions, keywords and
# defaults are PyTorch's, and it may be pasted from print(model). `gpuplan explain layers` lists what there is.
gpuplan: 1
name: classifier
vars:
  classes: 10  # gpuplan model.yaml --set classes=100
input: {shape: [3, 32, 32]}  # of one sample; --batch says how many
blocks:
  Residual:  # what stands several times in a model
    params: {c: required}
    layers:
      - residual:  # the body's result plus its input
          body:
            - conv: Conv2d(_, $c, 3, padding=1, bias=False)  # _ is the size that the layer before gives
            - bn: BatchNorm2d(_)
      - ReLU(inplace=True)
layers:
  - stem: Conv2d(3, 64, 3, padding=1)
  - stage: {block: Residual, repeat: 4, with: {c: 64}}
  - pool: AdaptiveAvgPool2d(1)
  - Flatten()
  - fc: Linear(_, $classes)
loss: CrossEntropyLoss()  # of class numbers; `gpuplan explain layers` has the others
)";

struct InitOptions {
  std::string model, file;
};

// A model of the zoo that extends another one is written out, so that its file stands alone.
std::string spec_text(const std::string& model) {
  if (model.empty()) return kStarter;
  std::vector<Variable> set;
  const std::shared_ptr<const Source> source = open_model(model, set);
  return model.starts_with("zoo:") ? template_text(model).text() : source->text;
}

int run_init(const InitOptions& options) {
  if (!options.file.empty()) refuse_unwritable({{.path = options.file}});
  const std::string text = spec_text(options.model);
  if (options.file.empty())
    write_stdout(text);
  else
    write_file(options.file, text);
  return 0;
}

}  // namespace

void add_init_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<InitOptions>();
  CLI::App* const command = app.add_subcommand("init", "A commented spec to go on from");
  command->add_option("model", options->model, "What to begin with: zoo:NAME, or a file that import takes")
      ->type_name("MODEL");
  command->add_option("-o,--output", options->file, "The file; standard output otherwise")->type_name("FILE");
  command->callback([options, &exit_code] { exit_code = run_init(*options); });
}

}  // namespace gpuplan
