// Parses the command line, runs the subcommand, and words the errors of the command line.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>

#include "tools/commands/commands.h"
#include "tools/options/other_flags.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

constexpr const char* kShortHelp =
    "gpuplan MODEL [flags]: predicts the GPU memory, FLOPs and time of a PyTorch step, without a GPU\n"
    "\n"
    "  gpuplan resnet50.yaml --batch 64 --opt adam       peak memory, and what is alive at the peak\n"
    "  gpuplan zoo:resnet50 --batch 64 --gpu t4          whether the step fits; exit code 1 if not\n"
    "  gpuplan layers resnet50.yaml --sort mem           memory and FLOPs of each module\n"
    "  gpuplan check --base auto                         whether the budgets in gpuplan.yaml are met\n"
    "\n"
    "all flags: gpuplan plan --help; all commands: gpuplan --help\n";

// "gpuplan plna resnet50.yaml": a word that is nearly a command, and no file.
void refuse_misspelt_command(const std::string& word, const std::vector<std::string>& names) {
  if (word.find_first_of("./:-") != std::string::npos || exists(word)) return;
  const std::string near = nearest(word, names);
  if (near.empty()) return;
  const std::vector<std::string> zoo = zoo_names();
  if (std::find(zoo.begin(), zoo.end(), word) != zoo.end()) return;
  throw Error("no such command or file: \"" + word + "\"" + did_you_mean(word, names), ErrorKind::usage);
}

// A variable that a script left unset must not plan something else, and in `--batch --opt adam` the batch is missing,
// which CLI11 would take the next flag for. An allocator configuration may well be empty.
void refuse_missing_values(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; }))
    for (CLI::Option* option : command->get_options()) {
      if (option->get_positional() || option->get_items_expected_min() == 0) continue;
      const bool may_be_empty = option->check_lname("alloc-conf");
      option->check([command, may_be_empty](const std::string& value) {
        if (value.empty()) return std::string(may_be_empty ? "" : "an empty value");
        return std::string(value[0] == '-' && command->get_option_no_throw(value) != nullptr ? "a flag" : "");
      });
    }
}

// CLI11 drops what is empty between two commas: a variable that a script left unset, or a slip.
void refuse_empty_items(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto is_list = [&](const std::string& flag) {
    const auto commands = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == arguments[0]; });
    const CLI::Option* const option = commands.empty() ? nullptr : commands[0]->get_option_no_throw(flag);
    return option != nullptr && option->get_delimiter() == ',';
  };
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::size_t equals = word.find('=');
    const std::string flag = word.substr(0, equals);
    if (!word.starts_with("-") || !is_list(flag)) continue;
    if (equals == std::string::npos && i + 1 == arguments.size()) continue;
    const std::string items = equals == std::string::npos ? arguments[i + 1] : word.substr(equals + 1);
    if (items.starts_with(',') || items.ends_with(',') || items.find(",,") != std::string::npos)
      throw Error(flag + " has an empty item in \"" + items + "\"", ErrorKind::usage);
  }
}

// `gpuplan help plan` is `gpuplan plan --help`.
std::vector<std::string> with_help_flag(std::vector<std::string> arguments, const std::vector<std::string>& names) {
  arguments.erase(arguments.begin());
  if (!arguments.empty() && std::find(names.begin(), names.end(), arguments[0]) == names.end())
    throw Error("no such command: \"" + arguments[0] + "\"" + did_you_mean(arguments[0], names), ErrorKind::usage)
        .help("for all commands: gpuplan --help");
  arguments.push_back("--help");
  return arguments;
}

// Without a subcommand the command is plan.
std::vector<std::string> with_command(std::vector<std::string> arguments, const std::vector<std::string>& names) {
  const std::string first = arguments.empty() ? "" : arguments[0];
  if (std::find(names.begin(), names.end(), first) != names.end()) return arguments;
  if (first == "--help" || first == "--version") return arguments;
  refuse_misspelt_command(first, names);
  arguments.insert(arguments.begin(), "plan");
  return arguments;
}

struct Command {
  std::string name;
  std::function<void(CLI::App&, int&)> add;
};

// In the order of the program's help. `model` and `words`: what stands behind -- of diff and of shadow.
std::vector<Command> all_commands(std::optional<std::string> model, std::vector<std::string> words) {
  return {{"plan", add_plan_command},
          {"layers", add_layers_command},
          {"check", add_check_command},
          {"fit", add_fit_command},
          {"diff", [model](CLI::App& app, int& exit_code) { add_diff_command(app, exit_code, model); }},
          {"sweep", add_sweep_command},
          {"serve", add_serve_command},
          {"gpus", add_gpus_command},
          {"instances", add_instances_command},
          {"explain", add_explain_command},
          {"snapshot", add_snapshot_command},
          {"replay", add_replay_command},
          {"shadow", [words](CLI::App& app, int& exit_code) { add_shadow_command(app, exit_code, words); }},
          {"validate", add_validate_command},
          {"calibrate", add_calibrate_command},
          {"import", add_import_command},
          {"init", add_init_command},
          {"schema", add_schema_command},
          {"mcp", add_mcp_command},
          {"completion", add_completion_command},
          {"man", add_man_command},
          {"version", add_version_command}};
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.name);
  return names;
}

// A flag that may be repeated takes one word each time: what follows is the next flag or the model. CLI11 gives it all
// words up to the next flag.
void let_flags_take_one_word(CLI::App& command) {
  for (CLI::Option* const option : command.get_options())
    if (!option->get_positional()) option->allow_extra_args(false);
  for (CLI::App* const nested : command.get_subcommands([](const CLI::App*) { return true; }))
    let_flags_take_one_word(*nested);
}

// The command that is asked for: the flags of all of them take CLI11 longer than planning a ResNet-50. The program's
// own help, completion and manual are about all.
void add_commands(const std::vector<Command>& commands, const std::vector<std::string>& arguments, CLI::App& app,
                  int& exit_code) {
  const std::string& asked = arguments[0];
  const bool all =
      asked == "--help" || asked == "completion" || asked == "man" || (asked == "--version" && arguments.size() > 1);
  for (const Command& command : commands)
    if (all || command.name == asked) command.add(app, exit_code);
  let_flags_take_one_word(app);
}

// `gpuplan shadow [flags] -- COMMAND ...`: what stands behind -- is another program's, whatever it looks like.
std::vector<std::string> take_command(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "shadow") return {};
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end()) return {};
  std::vector<std::string> words(dashes + 1, arguments.end());
  arguments.erase(dashes, arguments.end());
  return words;
}

// `gpuplan diff main -- MODEL [flags]`: the word behind -- is the model; flags may follow it.
std::optional<std::string> take_model(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "diff") return std::nullopt;
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  if (dashes == arguments.end()) return std::nullopt;
  if (dashes + 1 == arguments.end())
    throw Error("no model after --", ErrorKind::usage).help("for example: gpuplan diff main -- model.yaml -b 8");
  std::string model = *(dashes + 1);
  const auto more = dashes + 2;
  if (more != arguments.end() && !more->starts_with("-"))
    throw Error("unexpected argument: \"" + *more + "\"", ErrorKind::usage).help("only one model may follow --");
  arguments.erase(dashes, dashes + 2);
  return model;
}

// The subcommand that was being read.
const CLI::App& current(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : *parsed[0];
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

Error too_many(const std::string& word, const CLI::App& command) {
  return Error("unexpected argument: \"" + word + "\"", ErrorKind::usage)
      .help("for usage: gpuplan " + command.get_name() + " --help");
}

// Whether the command has what another tool's flag is called here; all that plan are told what no flag is for.
bool knows(const CLI::App& command, const OtherFlag& other) {
  const std::string_view name = other.here.empty() ? "--batch" : other.here.substr(0, other.here.find(' '));
  return command.get_option_no_throw(std::string(name)) != nullptr;
}

Error meant(const std::string& flag, const OtherFlag& other) {
  if (other.here.empty()) return Error("unknown flag " + flag + ": " + std::string(other.why), ErrorKind::usage);
  Error error("unknown flag " + flag + " — did you mean \"" + std::string(other.here) + "\"?", ErrorKind::usage);
  return other.why.empty() ? error : error.help(std::string(other.why));
}

// "-bs 8", "-lr": CLI11 takes the first letter for a flag and the rest for its value.
void refuse_long_names_behind_one_dash(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto commands = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == arguments[0]; });
  for (const std::string& word : arguments) {
    const std::string flag = word.substr(0, word.find('='));
    if (commands.empty() || !flag.starts_with('-') || flag.starts_with("--") || flag.size() == 2) continue;
    const OtherFlag* const other = other_flag(flag);
    if (other != nullptr && knows(*commands[0], *other)) throw meant(flag, *other);
  }
}

Error unexpected_word(const std::string& written, const CLI::App& command) {
  const std::string flag = written.substr(0, written.find('='));
  if (const OtherFlag* const other = flag.starts_with("-") ? other_flag(flag) : nullptr)
    if (knows(command, *other)) return meant(flag, *other);
  if (flag.starts_with("-") && flag != "-")
    return Error("unknown flag " + flag + did_you_mean(flag, flags_of(command)), ErrorKind::usage)
        .help(command.get_name() == "shadow"
                  ? "flags of the command itself go after --: gpuplan shadow -- python train.py"
                  : "for all flags: gpuplan " + command.get_name() + " --help");
  return too_many(written, command);
}

// CLI11 says "--batch: 1 required N missing" and "--batch: At Most 1 required but received 2".
Error wrong_count(const std::string& words, const CLI::App& command) {
  const std::string flag = words.substr(0, words.find(':'));
  if (words.find("received") != std::string::npos) return Error(flag + " is given more than once", ErrorKind::usage);
  const CLI::Option* const option = command.get_option_no_throw(flag);
  const std::string type = option == nullptr ? "" : ": " + option->get_type_name();
  return Error(flag + " expects a value" + type, ErrorKind::usage);
}

Error usage_error(const CLI::ParseError& problem, const CLI::App& app) {
  const CLI::App& command = current(app);
  if (dynamic_cast<const CLI::ExtrasError*>(&problem) != nullptr) {
    std::vector<std::string> rest = app.remaining(true);
    const bool words_only = std::erase(rest, "--") > 0;
    if (words_only && !rest.empty()) return too_many(rest.front(), command);
    // A flag explains the words behind it, which it may have been meant to take.
    const auto flag = std::find_if(rest.begin(), rest.end(), [](const std::string& w) { return w.starts_with("-"); });
    if (flag != rest.end()) return unexpected_word(*flag, command);
    if (!rest.empty()) return unexpected_word(rest.front(), command);
  }
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&problem) != nullptr ||
      dynamic_cast<const CLI::ValidationError*>(&problem) != nullptr)
    return wrong_count(problem.what(), command);
  return Error(problem.what(), ErrorKind::usage).help("for all flags: gpuplan " + command.get_name() + " --help");
}

}  // namespace

int run_command_line(std::vector<std::string> arguments) {
  int exit_code = 0;
  std::vector<std::string> words = take_command(arguments);
  std::optional<std::string> model = take_model(arguments);
  if (arguments.empty()) {
    write_stderr(kShortHelp);
    return 2;
  }
  if (std::find(arguments.begin(), arguments.end(), "-h") != arguments.end()) {
    write_stdout(kShortHelp);
    return 0;
  }
  CLI::App app(
      "Predicts the GPU memory, FLOPs and time of a PyTorch step, without a GPU. gpuplan MODEL is short for gpuplan "
      "plan MODEL.",
      "gpuplan");
  app.require_subcommand(0, 1);
  app.set_help_flag("--help", "Prints this help");
  bool version = false;
  app.add_flag("--version", version, "Prints the version");
  const std::vector<Command> commands = all_commands(std::move(model), std::move(words));
  const std::vector<std::string> names = names_of(commands);
  if (arguments[0] == "help") arguments = with_help_flag(std::move(arguments), names);
  arguments = with_command(std::move(arguments), names);
  add_commands(commands, arguments, app, exit_code);
  refuse_missing_values(app);
  refuse_empty_items(app, arguments);
  refuse_long_names_behind_one_dash(app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the end
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    write_stdout(&current(app) == &app ? app.help() : current(app).help("gpuplan"));
    return 0;
  } catch (const CLI::ParseError& problem) {
    throw usage_error(problem, app);
  }
  if (version) write_stdout(version_line());
  return exit_code;
}

}  // namespace gpuplan
