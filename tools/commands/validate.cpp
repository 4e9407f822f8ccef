// gpuplan validate MODEL: runs the plan's training loop on this machine's GPU and prints measured beside predicted.
#include <signal.h>  // NOLINT(modernize-deprecated-headers): sigaction

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <csignal>
#include <memory>

#include "estimator/base/error.h"
#include "estimator/device/find_gpu.h"
#include "layers/catalog.h"
#include "tools/answers/planning.h"
#include "tools/answers/report_page.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/options/words.h"
#include "tools/process/progress_line.h"
#include "tools/process/version.h"
#include "validate/calibration/calibration.h"
#include "validate/load_device.h"
#include "validate/validation.h"

namespace gpuplan {
namespace {

constexpr int kInterruptedExitCode = 130;  // 128 and SIGINT's number, as shells have it

struct Interrupted {};

// What a signal handler may write to is global by its nature.
volatile std::sig_atomic_t interrupted = 0;

extern "C" void note_interrupt(int) { interrupted = 1; }

// While it lives the first Ctrl-C only makes check() throw; the second one ends the process as ever. One at a time.
class Interrupt {
 public:
  Interrupt() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = note_interrupt;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, &before_);
  }
  ~Interrupt() { sigaction(SIGINT, &before_, nullptr); }
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  // Throws Interrupted once Ctrl-C was pressed.
  void check() const {
    if (interrupted != 0) throw Interrupted{};
  }

 private:
  struct sigaction before_ {};
};

struct ValidateOptions {
  RunOptions run;
  OutputOptions output;
  std::string tolerance = "1%", steps = "5", by, rows;
  bool values = false;
};

double tolerance_of(const std::string& written) {
  const bool percent = written.ends_with("%");
  const std::string digits = percent ? written.substr(0, written.size() - 1) : written;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value >= 0 && value <= 100))
    throw Error("--tolerance expects a share such as 1% or 0.01, not \"" + written + "\"", ErrorKind::usage);
  return percent ? value / 100 : value;
}

int steps_of(const std::string& written) {
  int value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc{} || end != written.data() + written.size() || value < 3 || value > 1'000'000)
    throw Error("--steps expects 3 to 1000000, not \"" + written + "\": the third step is the first in steady state",
                ErrorKind::usage);
  return value;
}

TimesTable times_table_of(const ValidateOptions& options) {
  TimesTable table;
  if (!options.by.empty())
    table.by = choose<TimesBy>("--by", options.by,
                               {{"layer", TimesBy::layer}, {"op", TimesBy::operation}, {"class", TimesBy::op_class}});
  if (!options.rows.empty()) table.max_rows = static_cast<int>(whole_number("-n", options.rows, 0, 1'000'000));
  return table;
}

std::string page_of(const Validation& validation, double tolerance, const ValidateOptions& options,
                    const TimesTable& table) {
  std::vector<std::string> notes = validation.remarks;
  for (const std::string& warning : validation.plan.warnings) notes.push_back(warning);
  const bool holds = validation.holds(tolerance);
  return report_page(
      {.text = validation_text(validation, tolerance, file_style(options.output), table),
       .json = validation_json(validation, tolerance, kVersion),
       .verdict =
           mark_of(holds, {}) + (validation.ran_out ? " It ran out of memory"
                                 : holds            ? " What was predicted was measured, within " + options.tolerance
                                         : " What was measured is not what was predicted, within " + options.tolerance),
       .good = holds,
       .notes = std::move(notes),
       .drawings = {},
       .memories = {}},
      options.output);
}

std::string render(const Validation& validation, double tolerance, Format format, const TextStyle& style,
                   const TimesTable& table, const ValidateOptions& options) {
  switch (format) {
    case Format::html: return page_of(validation, tolerance, options, table);
    case Format::json: return validation_json(validation, tolerance, kVersion);
    case Format::table: return validation_text(validation, tolerance, style, table);
    default: throw Error("validate can write text, JSON or HTML only", ErrorKind::usage);
  }
}

void refuse_other_formats(Format format, const std::vector<OutputFile>& files) {
  const auto written = [](Format f) { return f == Format::json || f == Format::table || f == Format::html; };
  if (!written(format) || !std::ranges::all_of(files, written, &OutputFile::format))
    throw Error("validate can write text, JSON or HTML only", ErrorKind::usage);
}

// Searched with the memory that this device has and what is in use of it, whatever the catalog says.
std::vector<Suggestion> suggestions_of(const Planning& planning, const Gpu& gpu, const RanOut& out) {
  Planning here = planning;
  here.run.context_bytes.reset();
  here.gpu = gpu;
  here.gpu->context_bytes = 0;
  here.gpu->cuda_total_bytes = out.free_bytes;
  return suggest(here, make_report(here));
}

std::string stage_text(const ValidationStage& stage) {
  std::string text = "validate: " + std::string(stage.what);
  if (stage.step == 0) return text + ", making the model";
  return text + ", step " + std::to_string(stage.step) + " of " + std::to_string(stage.steps);
}

Validation measure(Device& device, const Planning& planning, const Gpu& gpu, const ValidateOptions& options,
                   int steps) {
  const Interrupt interrupt;
  ProgressLine progress(!options.output.quiet);
  ValidationOptions how;
  how.steps = steps;
  how.compares_values = options.values;
  how.computes = !device_is_a_shadow();
  how.process_bytes = process_bytes_by_nvml(device.description().pci_bus_id);
  how.progress = [&](const ValidationStage& stage) {
    interrupt.check();
    if (progress.due()) progress.show(stage_text(stage));
  };
  return validate(device, planning.model, make_catalog(), planning.run, gpu, how);
}

int run_validate(const ValidateOptions& options) {
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  refuse_other_formats(format, files);
  refuse_unwritable(files);
  const TextStyle style = terminal_style(options.output);
  const double tolerance = tolerance_of(options.tolerance);
  const int steps = steps_of(options.steps);
  const TimesTable table = times_table_of(options);
  const Planning planning = prepare(options.run);
  const std::unique_ptr<Device> device = load_device(0);
  const Gpu gpu = planning.gpu ? *planning.gpu : describe_gpu(*device, gpu_table());
  Validation validation = measure(*device, planning, gpu, options, steps);
  if (validation.ran_out) validation.suggestions = suggestions_of(planning, gpu, *validation.ran_out);
  for (const OutputFile& file : files)
    write_report(file, render(validation, tolerance, file.format, file_style(options.output), table, options));
  write_stdout(render(validation, tolerance, format, style, table, options));
  return validation.holds(tolerance) ? 0 : 1;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* const command =
      app.add_subcommand("validate", "Runs a plan on this machine's GPU and compares measured with predicted");
  add_run_options(*command, options->run);
  command->add_option("--steps", options->steps, "Training steps to run (5)")->type_name("N");
  command->add_option("--tolerance", options->tolerance, "Largest relative error; exit code 1 beyond it (1%)")
      ->type_name("SHARE");
  command->add_flag("--values", options->values,
                    "Also checks that losses, gradients and weights equal those of a run that frees no memory");
  command->add_option("--by", options->by, "Also prints times, slowest first, by layer, operation or class")
      ->type_name("layer|op|class");
  command->add_option("-n,--rows", options->rows, "Rows of the time table; 0: all (20)")->type_name("N");
  add_output_options(*command, options->output);
  options->output.has_page = true;
  command->get_option("--format")->type_name("table|json|html");
  command->callback([options, command, &exit_code] {
    options->output.command = given_command(*command);
    try {
      exit_code = run_validate(*options);
    } catch (const Interrupted&) {  // by then the device is closed, and nothing was written
      exit_code = kInterruptedExitCode;
    }
  });
}

}  // namespace gpuplan
