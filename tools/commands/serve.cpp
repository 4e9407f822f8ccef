// gpuplan serve MODEL: whether an engine starts on a GPU, and how many tokens its cache has.
#include <CLI/CLI.hpp>
#include <memory>

#include "estimator/report/serve_report.h"
#include "tools/answers/planning.h"
#include "tools/answers/serve_page.h"
#include "tools/answers/served_load.h"
#include "tools/answers/serving.h"
#include "tools/answers/serving_offers.h"
#include "tools/commands/commands.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/load_options.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/serve_options.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace {

struct ServeCommand {
  RunOptions run;
  ServeOptions serve;
  LoadOptions load;
  std::vector<std::string> on;
  OutputOptions output;
};

Gpu named_gpu(const RunOptions& options) {
  if (options.gpu.empty())
    throw Error("gpuplan serve needs a GPU", ErrorKind::usage).help("name one with --gpu; gpuplan gpus lists them");
  Gpu gpu = *load_gpu(options);
  if (gpu.memory_bytes == 0) throw Error("--gpu " + options.gpu + ": its memory is not known", ErrorKind::usage);
  return gpu;
}

ServeReport make_serve_report(const ServeCommand& command) {
  ServeReport report;
  report.settings = serve_settings(command.serve);
  std::optional<AskedLoad> asked;
  if (command.load.given()) asked = load_of(command.load);
  const Gpu gpu = named_gpu(command.run);
  refuse_learned_trace({command.run.model, command.run.piped});
  const PublishedModel published = published_model(command.run);
  const Model& model = published.model;
  if (command.serve.weights.empty()) report.settings.weights = published.weights;
  const ServedModel served = decoder_of(model, gpu);
  report.model = model.name;
  if (!model.sources.empty()) report.file = model.sources.front()->name;
  report.gpu = gpu.name;
  report.gpu_title = gpu.title;
  report.precision = gpu.capability_major >= 8 ? "bf16" : "fp16";  // _resolve_auto_dtype()
  report.parameters = served.parameters();
  report.start = tried_start(served, gpu, report.settings);
  report.warnings = report.start.warnings;
  if (asked && report.start.starts) report.load = served_load(served, gpu, report.settings, report.start, *asked);
  return report;
}

// The GPUs of --on; "any": all whose memory and speed are known.
std::vector<Gpu> gpus_on(const std::vector<std::string>& names) {
  std::vector<Gpu> out;
  if (names == std::vector<std::string>{"any"}) {
    for (const Gpu& gpu : gpu_table())
      if (gpu.memory_bytes > 0 && gpu.datasheet && gpu.capability_major >= 7) out.push_back(gpu);
    return out;
  }
  for (const std::string& name : names) {
    RunOptions options;
    options.gpu = name;
    const std::optional<Gpu> gpu = load_gpu(options);
    if (!gpu || gpu->memory_bytes == 0)
      throw Error("--on expects GPUs whose memory is known, such as l4,h100, or any", ErrorKind::usage);
    out.push_back(*gpu);
  }
  return out;
}

int run_offers(const ServeCommand& command) {
  const Format format = format_of(command.output);
  if (format != Format::table && format != Format::json)
    throw Error("serve --on writes text or JSON", ErrorKind::usage).help("--format table or json");
  if (!command.run.gpu.empty()) throw Error("--gpu and --on are two questions", ErrorKind::usage).help("leave one out");
  ServeSettings settings = serve_settings(command.serve);
  const AskedLoad asked = load_of(command.load);
  const std::vector<Gpu> gpus = gpus_on(command.on);
  const PublishedModel published = published_model(command.run);
  if (command.serve.weights.empty()) settings.weights = published.weights;
  const ServedModel served = decoder_of(published.model, gpus.front());
  const ServingOffers offers = serving_offers(served, gpus, settings, asked);
  const auto text = [&](Format as, const TextStyle& style) {
    return as == Format::json ? serving_offers_json(offers, kVersion) : serving_offers_text(offers, style);
  };
  for (const OutputFile& file : files_of(command.output))
    write_report(file, text(file.format, file_style(command.output)));
  write_stdout(text(format, terminal_style(command.output)));
  return offers.best() != nullptr ? 0 : 1;
}

std::string render(const ServeReport& report, Format format, const TextStyle& style, const OutputOptions& output) {
  switch (format) {
    case Format::json: return serve_json(report, kVersion);
    case Format::html: return serve_page(report, output);
    case Format::table: return serve_text(report, style);
    default: throw Error("serve writes text, JSON or HTML", ErrorKind::usage).help("--format table, json or html");
  }
}

int run_serve(const ServeCommand& command) {
  if (!command.on.empty()) return run_offers(command);
  const Format format = format_of(command.output);
  const std::vector<OutputFile> files = files_of(command.output);
  const ServeReport report = make_serve_report(command);
  const bool clean = show_warnings(report.warnings, command.output.quiet, command.run.strict);
  for (const OutputFile& file : files)
    write_report(file, render(report, file.format, file_style(command.output), command.output));
  write_stdout(render(report, format, terminal_style(command.output), command.output));
  const bool meets = !report.load || !report.load->slo || report.load->highest;
  return clean && report.start.starts && meets ? 0 : 1;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<ServeCommand>();
  CLI::App* const command = app.add_subcommand(
      "serve", "Tells whether an engine starts, how much cache it has, and what it serves at which cost");
  command->add_option("model", options->run.model, "A model file, zoo:NAME, or - for standard input")
      ->type_name("MODEL")
      ->required();
  command->add_option("-d,--gpu,--device", options->run.gpu, "A GPU, or a GPU file")->type_name("NAME");
  command->add_option("--on", options->on, "Ranks GPUs by what a million tokens cost: any, or some, such as l4,h100")
      ->type_name("GPU,...|any")
      ->delimiter(',')
      ->group("Load");
  command->add_option("--set", options->run.set, "Sets a variable of the model; repeatable")->type_name("NAME=VALUE");
  command->add_flag("--strict", options->run.strict, "Treats warnings as errors");
  add_serve_options(*command, options->serve);
  add_load_options(*command, options->load);
  add_output_options(*command, options->output);
  options->output.has_page = true;
  command->callback([options, command, &exit_code] {
    options->output.command = given_command(*command);
    exit_code = run_serve(*options);
  });
}

}  // namespace gpuplan
