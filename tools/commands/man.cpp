// gpuplan man: the manual page, generated from the program's own option table. In man(7)'s macros.
#include <CLI/CLI.hpp>
#include <string>

#include "tools/commands/commands.h"
#include "tools/options/output_options.h"

namespace gpuplan {

namespace {

constexpr const char* kDescription =
    "gpuplan plans a training or inference step of a PyTorch model: the bytes of parameters, activations, gradients "
    "and optimizer state, the peak and when it comes, FLOPs and time, and the GPU that the step fits. It needs neither "
    "a GPU nor PyTorch. Without a command it plans: gpuplan MODEL is gpuplan plan MODEL.";

// As README.md and tools/process/exit_code.h have them.
constexpr const char* kEnd =
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nThe step fits, the budgets hold, the command did what it says.\n"
    ".TP\n.B 1\nThe answer is no: the step does not fit, or a budget is broken.\n"
    ".TP\n.B 2\nThe command line is wrong.\n"
    ".TP\n.B 3\nAn input file is wrong.\n"
    ".TP\n.B 4\nThis machine lacks something: a file that cannot be read, a GPU, a library.\n"
    ".TP\n.B 70\nA bug in gpuplan.\n"
    ".SH EXAMPLES\n"
    ".TP\n.B gpuplan zoo:resnet50 \\-\\-batch 64 \\-\\-opt adam \\-\\-gpu t4\nPlans a step, and says whether it fits a "
    "T4.\n"
    ".TP\n.B gpuplan fit model.yaml \\-\\-on all\nFinds the largest batch of each GPU.\n"
    ".TP\n.B gpuplan check \\-\\-base auto\nChecks the budgets in gpuplan.yaml.\n"
    ".TP\n.B gpuplan shadow \\-\\-gpu h100 \\-\\- python train.py\nRuns a script as if it had an H100.\n";

// A line of text: no command of roff's, and hyphens that can be copied into a shell.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += "\n.br\n";
    else if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n'))
      out += std::string("\\&") + c;
    else
      out += c;
  }
  return out;
}

std::string option_entry(const CLI::Option& option) {
  std::string names;
  const auto add = [&](const std::string& name) { names += (names.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR"; };
  for (const std::string& name : option.get_snames()) add("-" + name);
  for (const std::string& name : option.get_lnames()) add("--" + name);
  if (option.get_positional()) add(option.get_name(true));
  if (option.get_items_expected_max() > 0) names += " \\fI" + roff(option.get_type_name()) + "\\fR";
  return ".TP\n" + names + "\n" + roff(option.get_description()) + "\n";
}

std::string command_section(const CLI::App& command) {
  std::string out = ".SS gpuplan " + roff(command.get_name()) + "\n" + roff(command.get_description()) + "\n";
  std::string group;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty() || option->check_lname("help")) continue;  // without a group: hidden
    if (!option->get_positional() && option->get_group() != group) {
      group = option->get_group();
      out += ".PP\n" + roff(group) + ":\n";
    }
    out += option_entry(*option);
  }
  for (const CLI::App* const nested :
       command.get_subcommands([](const CLI::App* app) { return !app->get_name().empty(); }))
    out += ".PP\n.B gpuplan " + roff(command.get_name() + " " + nested->get_name()) + "\n" +
           roff(nested->get_description()) + "\n";
  if (!command.get_footer().empty()) out += ".PP\n" + roff(command.get_footer()) + "\n";
  return out;
}

std::string manual(const CLI::App& app) {
  std::string out =
      ".\\\" Written by gpuplan man.\n.TH GPUPLAN 1 \"\" \"gpuplan " + std::string(GPUPLAN_VERSION) +
      "\"\n.SH NAME\ngpuplan \\- predicts the GPU memory, FLOPs and time of a PyTorch step, without a GPU\n"
      ".SH SYNOPSIS\n.B gpuplan\n[\\fICOMMAND\\fR] [\\fIMODEL\\fR] [\\fIflags\\fR]\n.SH DESCRIPTION\n" +
      roff(kDescription) + "\n.SH COMMANDS\n";
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App* a) { return !a->get_name().empty(); }))
    out += command_section(*command);
  return out + kEnd;
}

}  // namespace

void add_man_command(CLI::App& app, int& exit_code) {
  CLI::App* const command = app.add_subcommand("man", "Prints the manual page: gpuplan man | man -l -");
  command->callback([&app, &exit_code] {
    write_stdout(manual(app));
    exit_code = 0;
  });
}

}  // namespace gpuplan
