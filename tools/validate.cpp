// gpuplan validate MODEL: runs the plan's training loop on this machine's GPU and prints measured beside predicted.
#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "estimator/device/find_gpu.h"
#include "estimator/error.h"
#include "layers/catalog.h"
#include "tools/commands.h"
#include "tools/output_options.h"
#include "tools/planning.h"
#include "tools/version.h"
#include "tools/words.h"
#include "validate/load_device.h"
#include "validate/validation.h"

namespace gpuplan {
namespace {

struct ValidateOptions {
  RunOptions run;
  OutputOptions output;
  std::string tolerance = "1%", steps = "5";
  bool values = false;
};

double tolerance_of(const std::string& written) {
  const bool percent = written.ends_with("%");
  const std::string digits = percent ? written.substr(0, written.size() - 1) : written;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size() || !(value >= 0 && value <= 100))
    throw Error("--tolerance is \"" + written + "\", expected a share as 1% or 0.01", ErrorKind::usage);
  return percent ? value / 100 : value;
}

int steps_of(const std::string& written) {
  int value = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), value);
  if (error != std::errc{} || end != written.data() + written.size() || value < 3 || value > 1'000'000)
    throw Error("--steps is \"" + written + "\", expected 3 to 1000000: the third step is the first settled one",
                ErrorKind::usage);
  return value;
}

// The GPU's entry in the catalog, or one made of what the device says of itself.
Gpu gpu_of(const Device& device, const std::optional<Gpu>& named) {
  if (named) return *named;
  const DeviceDescription d = device.description();
  for (const Gpu& g : gpu_table())
    if (g.title == d.name || g.cuda_name == d.name) return g;
  Gpu gpu = assumed_gpu();
  gpu.name = gpu.title = d.name;
  gpu.capability_major = d.compute_major;
  gpu.capability_minor = d.compute_minor;
  gpu.sm_count = d.sm_count;
  return gpu;
}

std::string render(const Validation& validation, double tolerance, Format format, const TextStyle& style) {
  switch (format) {
    case Format::json: return validation_json(validation, tolerance, kVersion);
    case Format::table: return validation_text(validation, tolerance, style);
    default: throw Error("validate writes text or JSON", ErrorKind::usage);
  }
}

int run_validate(const ValidateOptions& options) {
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  const TextStyle style = terminal_style(options.output);
  const double tolerance = tolerance_of(options.tolerance);
  const int steps = steps_of(options.steps);
  const Planning planning = prepare(options.run);
  const std::unique_ptr<Device> device = load_device(0);
  const Gpu gpu = gpu_of(*device, planning.gpu);
  const Validation validation =
      validate(*device, planning.model, make_catalog(), planning.run, gpu,
               {.steps = steps, .compares_values = options.values, .computes = !device_is_a_shadow()});
  for (const OutputFile& file : files)
    write_file(file.path, render(validation, tolerance, file.format, file_style(options.output)));
  write_stdout(render(validation, tolerance, format, style));
  return validation.holds(tolerance) ? 0 : 1;
}

}  // namespace

void add_validate_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* const command =
      app.add_subcommand("validate", "Runs the plan on this machine's GPU, measured beside predicted");
  add_run_options(*command, options->run);
  command->add_option("--steps", options->steps, "Training steps to run (5)")->type_name("N");
  command->add_option("--tolerance", options->tolerance, "Exit code 1 where an error is larger (1%)")
      ->type_name("SHARE");
  command->add_flag("--values", options->values,
                    "Also compares losses, gradients and weights with those of a run that releases no memory");
  add_output_options(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_validate(*options); });
}

}  // namespace gpuplan
