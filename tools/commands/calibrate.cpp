// gpuplan calibrate -o gpu.yaml: measures this machine's GPU into a file that --gpu reads.
#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <memory>

#include "estimator/base/error.h"
#include "estimator/device/write_gpu.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/words.h"
#include "tools/process/progress_line.h"
#include "tools/process/version.h"
#include "validate/calibration/calibration.h"
#include "validate/load_device.h"

namespace gpuplan {
namespace {

struct CalibrateOptions {
  std::string file, seconds;
  bool quick = false, dry = false, ascii = false, force = false;
};

std::string date_of_today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[16] = "";
  (void)std::strftime(text, sizeof text, "%Y-%m-%d", &utc);
  return text;
}

std::string with_source(const Gpu& gpu, const Measurements& m) {
  return gpu.source +
         "; context_bytes: what the device's memory held beside the operands when all was measured, other " +
         "programs included; measured: gpuplan calibrate, " + m.date;
}

int run_calibrate(const CalibrateOptions& options) {
  CalibrationOptions how;
  how.quick = options.quick;
  how.dry = options.dry;
  if (!options.seconds.empty())
    how.budget_seconds = static_cast<double>(whole_number("--seconds", options.seconds, 1, 86'400));
  if (options.dry && !options.file.empty())
    throw Error("--dry-run writes no file: leave out -o or --dry-run", ErrorKind::usage);
  const std::unique_ptr<Device> device = load_device(0);
  if (device_is_a_shadow() && !options.dry)
    throw Error("this GPU is simulated, so there are no times to measure", ErrorKind::environment)
        .help("--dry-run runs every operation once and measures nothing");
  const OutputFile file{.path = options.file == "-" ? "" : options.file, .force = options.force};
  if (!file.path.empty()) refuse_unwritable({file});

  Calibration calibration;
  {
    ProgressLine progress(true);
    calibration =
        calibrate(*device, describe_gpu(*device, gpu_table()), how, [&](std::string_view what, int done, int total) {
          if (progress.due())
            progress.show("calibrate: " + std::string(what) + ", " + std::to_string(done) + " of " +
                          std::to_string(total));
        });
  }
  if (options.dry) {
    write_stdout(calibration.gpu.title + " accepted " + std::to_string(calibration.operations) + " operations\n");
    return 0;
  }
  Measurements& m = *calibration.gpu.measured;
  m.date = date_of_today();
  m.with = "gpuplan " + std::string(kVersion) + ", " + device->description().versions;
  calibration.gpu.source = with_source(calibration.gpu, m);
  const std::string yaml = gpu_yaml(calibration.gpu);
  if (file.path.empty()) {
    write_stdout(yaml);
    return 0;
  }
  write_report(file, yaml);
  OutputOptions look;
  look.ascii = options.ascii;
  write_stdout(calibration_text(calibration, terminal_style(look).unicode));
  return 0;
}

}  // namespace

void add_calibrate_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<CalibrateOptions>();
  CLI::App* const command =
      app.add_subcommand("calibrate", "Measures this machine's GPU and writes a GPU file for --gpu");
  command->add_option("-o,--output", options->file, "File to write (standard output)")->type_name("FILE");
  command->add_flag("--force", options->force,
                    "Replaces the file even if it is a model, a budget, a trace or a script");
  command->add_option("--seconds", options->seconds, "Limit on the GPU time used (120; 15 with --quick)")
      ->type_name("N");
  command->add_flag("--quick", options->quick, "Measures fewer sizes");
  command->add_flag("--dry-run", options->dry, "Runs each operation once and measures nothing");
  command->add_flag("--ascii", options->ascii, "Prints ASCII only");
  command->callback([options, &exit_code] { exit_code = run_calibrate(*options); });
}

}  // namespace gpuplan
