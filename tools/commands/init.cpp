// gpuplan init [MODEL]: a spec to go on from; with --budget a gpuplan.yaml.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "estimator/base/amount.h"
#include "estimator/spec/read.h"
#include "tools/answers/draft.h"
#include "tools/check/settings.h"
#include "tools/check/starter.h"
#include "tools/commands/commands.h"
#include "tools/importers/spec_text.h"
#include "tools/options/output_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

constexpr const char* kStarter =
    R"(# A model for gpuplan. Each line of layers: is a torch.nn constructor call, with or without a name. Arguments and
# defaults are PyTorch's, so calls can be pasted from print(model). `gpuplan explain layers` lists all layers.
gpuplan: 1
name: classifier
vars:
  classes: 10  # gpuplan model.yaml --set classes=100
input: {shape: [3, 32, 32]}  # of one sample; --batch is the number of samples
blocks:
  Residual:  # a part that is used several times
    params: {c: required}
    layers:
      - residual:  # the body's result plus its input
          body:
            - conv: Conv2d(_, $c, 3, padding=1, bias=False)  # _ is inferred from the previous layer
            - bn: BatchNorm2d(_)
      - ReLU(inplace=True)
layers:
  - stem: Conv2d(3, 64, 3, padding=1)
  - stage: {block: Residual, repeat: 4, with: {c: 64}}
  - pool: AdaptiveAvgPool2d(1)
  - Flatten()
  - fc: Linear(_, $classes)
loss: CrossEntropyLoss()  # targets are class indices; `gpuplan explain layers` lists other losses
)";

struct InitOptions {
  RunOptions run;
  std::vector<std::string> more;
  std::string file, headroom;
  bool budget = false, force = false;
};

// "25%" in hundredths of a percent.
std::int64_t headroom_of(const std::string& text) {
  constexpr std::array<AmountUnit, 2> kPercent = {{{"%", 100}, {" %", 100}}};
  if (text.empty()) return 2'500;
  const std::optional<std::int64_t> hundredths = read_amount(text, kPercent);
  if (!hundredths || *hundredths > 1'000'000)
    throw Error("--headroom expects a percentage such as 25%, not \"" + text + "\"", ErrorKind::usage);
  return *hundredths;
}

std::string budget_text(const InitOptions& options) {
  std::vector<std::string> models = options.more;
  if (options.run.model.empty())
    throw Error("no model is named", ErrorKind::usage).help("gpuplan init --budget MODEL... -o gpuplan.yaml");
  models.insert(models.begin(), options.run.model);
  if (!options.force && !options.file.empty() && exists(options.file))
    throw Error(options.file + " already exists", ErrorKind::usage)
        .help("update its limits with gpuplan check --update, or replace it with --force");
  const std::filesystem::path file = std::filesystem::absolute(options.file.empty() ? "gpuplan.yaml" : options.file);
  return starter_budget(models, file.parent_path().lexically_normal(), options.run, headroom_of(options.headroom));
}

void refuse_budget_flags(const InitOptions& options) {
  RunOptions flags = options.run;
  flags.model.clear();
  const std::vector<Setting> given = settings_of(flags);
  const std::string flag = !given.empty() ? "--" + given.front().key : !options.headroom.empty() ? "--headroom" : "";
  if (!flag.empty()) throw Error(flag + " needs --budget: a spec does not say how the model is run", ErrorKind::usage);
  if (!options.more.empty()) throw Error("unexpected argument: \"" + options.more.front() + "\"", ErrorKind::usage);
}

// Behind the comment that the model begins with: how it is planned, and how it is changed.
std::string with_directions(const std::string& text, const std::string& file) {
  std::size_t at = 0;
  while (at < text.size() && text[at] == '#') at = std::min(text.find('\n', at), text.size() - 1) + 1;
  const bool plain = std::ranges::none_of(file, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  std::string directions = "# `gpuplan " + (file.empty() || !plain ? "FILE.yaml" : file) + " --batch 8` plans it";
  if (text.find("\nvars:") != std::string::npos) directions += "; --set takes any of vars:, as in --set NAME=1";
  return text.substr(0, at) + directions + ".\n# `gpuplan explain NAME` says what a layer does.\n" + text.substr(at);
}

// What a file extends is found from its own folder.
void refuse_extending(const std::string& model, const std::string& file, const Source& source) {
  namespace fs = std::filesystem;
  if (SpecText(source.text).extends().empty()) return;
  const auto folder = [](const std::string& path) { return fs::absolute(path).lexically_normal().parent_path(); };
  if (file.empty() || folder(file) == folder(model)) return;
  throw Error(model + " extends another file by a path relative to its own folder")
      .help("gpuplan plan --canonical " + model + " prints both as one spec");
}

// A model of the zoo that extends another one is written out, so that its file stands alone.
std::string spec_text(const std::string& model, const std::string& file) {
  if (model.empty()) return kStarter;
  std::vector<Variable> set;
  const std::shared_ptr<const Source> source = open_model(model, set);
  if (model.starts_with("zoo:")) return with_directions(template_text(model).text(), file);
  (void)read_model(source, {.set = {}, .open = open_extended});           // what is no model is not written as one
  if (source->name != model) return with_directions(source->text, file);  // an import
  refuse_extending(model, file, *source);
  return source->text;
}

int run_init(const InitOptions& options) {
  if (!options.file.empty() && options.file != "-")
    refuse_unwritable({{.path = options.file, .force = true}});  // write_draft() looks at its text
  if (!options.budget) refuse_budget_flags(options);
  const std::string text = options.budget ? budget_text(options) : spec_text(options.run.model, options.file);
  write_draft(options.file, text, options.force);
  return 0;
}

}  // namespace

void add_init_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<InitOptions>();
  CLI::App* const command =
      app.add_subcommand("init", "Writes a model spec to start from, or with --budget a gpuplan.yaml");
  add_run_options(*command, options->run);
  command->get_option("model")->description("What to start from: zoo:NAME, or a file that import takes");
  command->add_option("more", options->more, "More models, with --budget")->type_name("MODEL");
  command->add_flag("--budget", options->budget,
                    "Writes a gpuplan.yaml whose limits are today's figures plus headroom");
  command->add_option("--headroom", options->headroom, "Headroom above today's peak (25%)")->type_name("PERCENT");
  command->add_option("-o,--output", options->file, "File to write (standard output)")->type_name("FILE");
  command->add_flag("--force", options->force, "Replaces a file with different contents");
  command->callback([options, &exit_code] { exit_code = run_init(*options); });
}

}  // namespace gpuplan
