// gpuplan layers MODEL: which module costs what.
#include <CLI/CLI.hpp>
#include <memory>

#include "estimator/report/writers.h"
#include "tools/commands.h"
#include "tools/output_options.h"
#include "tools/planning.h"
#include "tools/version.h"

namespace gpuplan {

namespace {

struct LayersOptions {
  RunOptions run;
  OutputOptions output;
  bool time = false;
};

std::string render(const Report& report, Format format, const LayerTableOptions& table) {
  switch (format) {
    case Format::json: return report_json(report, kVersion);
    case Format::csv: return report_csv(report);
    case Format::md: return report_layers_md(report, table);
    case Format::table: break;
  }
  return report_layers(report, table);
}

// Times are asked for, and there are none.
void refuse_unknown_time(const LayersOptions& options, const Planning& planning, const Report& report) {
  const std::string flag = options.time ? "--time" : options.output.sort == "time" ? "--sort time" : "";
  if (flag.empty() || report.time) return;
  if (!planning.gpu || planning.gpu_is_limit)
    throw Error(flag + ": how long a step takes is known for a named GPU with published peaks", ErrorKind::usage)
        .help("name one with --gpu; gpuplan gpus lists them");
  throw Error(flag + ": how long a step takes on " + planning.gpu->title +
                  " is not known: its file lacks a rate, the bandwidth or the host link, or tensors wait on the host",
              ErrorKind::usage)
      .help("--host-copy none leaves the link out");
}

int run_layers(const LayersOptions& options) {
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  const TextStyle style = terminal_style(options.output);
  LayerTableOptions table = layer_table_options(options.output, style.unicode);
  table.time = options.time;
  const Planning planning = prepare(options.run);
  const Report report = make_report(planning);
  refuse_unknown_time(options, planning, report);
  const bool clean = show_warnings(report, options.output.quiet, options.run.strict);
  for (const OutputFile& file : files) {
    LayerTableOptions in_file = layer_table_options(options.output, !options.output.ascii);
    in_file.time = options.time;
    write_file(file.path, render(report, file.format, in_file));
  }
  write_stdout(render(report, format, table));
  if (style.interactive && format == Format::table)
    write_stdout("  -n 0 shows every row, --depth 0 every level; for scripts: --format csv|json|md\n");
  return clean ? 0 : 1;
}

}  // namespace

void add_layers_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<LayersOptions>();
  CLI::App* const command = app.add_subcommand("layers", "Which module costs what");
  add_run_options(*command, options->run);
  add_layer_options(*command, options->output);
  command->add_flag("--time", options->time, "Each layer's time and what it waits for")->group("Layer table");
  add_output_options(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_layers(*options); });
}

}  // namespace gpuplan
