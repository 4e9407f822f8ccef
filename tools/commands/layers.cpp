// gpuplan layers MODEL: which module costs what.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <memory>

#include "estimator/report/advice_text.h"
#include "estimator/report/roofline.h"
#include "estimator/report/writers.h"
#include "estimator/search/speed_advice.h"
#include "layers/catalog.h"
#include "tools/answers/planning.h"
#include "tools/commands/commands.h"
#include "tools/options/kept_file.h"
#include "tools/options/output_options.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace {

struct LayersOptions {
  RunOptions run;
  OutputOptions output;
  bool time = false, roofline = false;
};

// Points of a roofline that are named: as many as --rows has, or a dozen.
constexpr std::size_t kMarked = 12;
std::size_t marked(const LayersOptions& options, const LayerTableOptions& table) {
  if (options.output.rows.empty()) return kMarked;
  return table.max_rows == 0 ? SIZE_MAX : static_cast<std::size_t>(table.max_rows);
}

std::string render(const Report& report, Format format, const TextStyle& style, const LayersOptions& options) {
  LayerTableOptions table = layer_table_options(options.output, style.unicode);
  table.time = options.time;
  switch (format) {
    case Format::json: return report_json(report, kVersion);
    case Format::csv: return report_csv(report);
    case Format::md: return report_layers_md(report, table) + (report.advice ? advice_md(report) : "");
    case Format::svg: return roofline_svg(roofline(report), marked(options, table));
    case Format::html:
    case Format::table: break;
  }
  const std::string top =
      options.roofline ? roofline_text(roofline(report), style, marked(options, table)) : report_layers(report, table);
  return top + (report.advice ? "\n" + advice_text(report, style) : "");
}

// Times are asked for, and there are none.
void refuse_unknown_time(const LayersOptions& options, const Planning& planning, const Report& report) {
  const std::string flag = options.roofline                ? "--roofline"
                           : options.time                  ? "--time"
                           : options.output.sort == "time" ? "--sort time"
                                                           : "";
  if (flag.empty() || report.time) return;
  if (!planning.gpu || planning.gpu_is_limit)
    throw Error(flag + ": step times need a named GPU with published peaks", ErrorKind::usage)
        .help("name one with --gpu; gpuplan gpus lists them");
  throw Error(flag + ": the step time on " + planning.gpu->title + " is not known: " + report.no_time,
              ErrorKind::usage);
}

void refuse_drawing(const LayersOptions& options, const std::vector<OutputFile>& files, Format format) {
  const auto drawn = std::ranges::find(files, Format::svg, &OutputFile::format);
  if (options.roofline || (drawn == files.end() && format != Format::svg)) return;
  throw Error((drawn == files.end() ? "--format svg" : "-o " + drawn->path) + ": SVG files need --roofline",
              ErrorKind::usage)
      .help("gpuplan layers MODEL --gpu NAME --roofline -o roofline.svg");
}

int run_layers(const LayersOptions& options) {
  const Format format = format_of(options.output);
  const std::vector<OutputFile> files = files_of(options.output);
  refuse_drawing(options, files, format);
  const TextStyle style = terminal_style(options.output);
  (void)layer_table_options(options.output, style.unicode);
  const Planning planning = prepare(options.run);
  auto [plan, report] = make_planned(planning);
  refuse_unknown_time(options, planning, report);
  if (options.time) report.advice = speed_advice(plan, make_catalog(), planning.copy, *report.time);
  const bool clean = show_warnings(report, options.output.quiet, options.run.strict);
  for (const OutputFile& file : files)
    write_report(file, render(report, file.format, file_style(options.output), options));
  write_stdout(render(report, format, style, options));
  if (style.interactive && !options.roofline && format == Format::table)
    write_stdout("  -n 0 shows all rows, --depth 0 all levels; scripts can use --format csv|json|md\n");
  return clean ? 0 : 1;
}

}  // namespace

void add_layers_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<LayersOptions>();
  CLI::App* const command = app.add_subcommand("layers", "Breaks a step down by module: memory, FLOPs, time");
  add_run_options(*command, options->run);
  add_margin_option(*command, options->run);
  add_layer_options(*command, options->output);
  command->add_flag("--time", options->time, "Time of each module, what bounds it, and what would make the step faster")
      ->group("Layer table");
  command
      ->add_flag(
          "--roofline", options->roofline,
          "Roofline: arithmetic intensity and FLOP/s of each layer against the GPU's peaks; -o FILE.svg draws it")
      ->group("Layer table");
  add_output_options(*command, options->output);
  options->output.has_drawing = true;
  command->callback([options, &exit_code] { exit_code = run_layers(*options); });
}

}  // namespace gpuplan
