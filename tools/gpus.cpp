// gpuplan gpus [NAME]: the GPUs that are known, one of them, or those of this machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "estimator/device/find_gpu.h"
#include "estimator/report/gpu_list.h"
#include "estimator/report/text_table.h"
#include "tools/commands.h"
#include "tools/output_options.h"
#include "tools/run_options.h"
#include "tools/unknown_gpu.h"
#include "validate/live_gpus.h"

namespace gpuplan {

namespace {

struct GpusOptions {
  std::string name;
  bool live = false;
  OutputOptions output;
};

// Oldest first, as people know the generations; within a year by name.
std::vector<Gpu> sorted(std::vector<Gpu> gpus) {
  std::ranges::stable_sort(gpus, {},
                           [](const Gpu& g) { return std::pair(g.datasheet ? g.datasheet->year : 0, g.name); });
  return gpus;
}

// Those with the word in a name or alias, or of that architecture.
std::vector<Gpu> those_like(const std::vector<Gpu>& gpus, const std::string& word) {
  const std::string key = gpu_key(word);
  std::vector<Gpu> found;
  for (const Gpu& gpu : gpus) {
    const auto has = [&](const std::string& name) { return gpu_key(name).find(key) != std::string::npos; };
    if (has(gpu.name) || has(gpu.title) || gpu_key(gpu.architecture) == key || std::ranges::any_of(gpu.aliases, has))
      found.push_back(gpu);
  }
  return found;
}

std::string render(const std::vector<Gpu>& gpus, bool one, Format format, const TextStyle& style) {
  switch (format) {
    case Format::json: return gpu_list_json(gpus);
    case Format::csv: return gpu_list_csv(gpus);
    case Format::md: return gpu_list_md(gpus);
    case Format::table: break;
  }
  return one ? gpu_text(gpus.front(), style) : gpu_list_text(gpus, style);
}

void show(const std::vector<Gpu>& gpus, bool one, const OutputOptions& output) {
  for (const OutputFile& file : files_of(output))
    write_file(file.path, render(gpus, one, file.format, file_style(output)));
  write_stdout(render(gpus, one, format_of(output), terminal_style(output)));
}

// By the name that the driver has for it, or as people call it.
const Gpu* known(const std::vector<Gpu>& gpus, const std::string& name) {
  const auto named = std::ranges::find(gpus, name, &Gpu::cuda_name);
  return named != gpus.end() ? &*named : find_gpu(gpus, name);
}

int run_live(const GpusOptions& options) {
  const std::vector<Gpu> gpus = gpu_table();
  std::vector<Gpu> here;
  TextTable table({TextTable::Align::right, TextTable::Align::left, TextTable::Align::right, TextTable::Align::right,
                   TextTable::Align::left});
  table.row({"", "GPU", "MiB", "free", "plan with"});
  const auto mib = [](std::int64_t bytes) { return bytes > 0 ? format_count(bytes >> 20) : std::string("-"); };
  for (const LiveGpu& live : live_gpus()) {
    const Gpu* const gpu = live.name.empty() ? nullptr : known(gpus, live.name);
    if (gpu != nullptr && !live.mig) here.push_back(*gpu);  // a slice is not the card
    std::string flag = gpu != nullptr ? "--gpu " + gpu->name : "not known: gpuplan calibrate -o gpu.yaml";
    if (live.name.empty()) flag = "nothing: the driver does not say what it is";
    if (live.mig) flag = "the size of your MIG slice (nvidia-smi -L), as in --gpu \"9728 MiB\"";
    table.row({std::to_string(live.index), live.name.empty() ? "?" : live.name, mib(live.total_bytes),
               mib(live.free_bytes), flag});
  }
  if (format_of(options.output) == Format::table && options.output.files.empty())
    write_stdout(table.text());
  else
    show(here, false, options.output);
  return 0;
}

int run_gpus(const GpusOptions& options) {
  if (options.live && !options.name.empty()) throw Error("--live lists all: leave out the name", ErrorKind::usage);
  if (options.live) return run_live(options);
  const std::vector<Gpu> gpus = sorted(gpu_table());
  if (options.name.empty()) {
    show(gpus, false, options.output);
    return 0;
  }
  if (const Gpu* const gpu = find_gpu(gpus, options.name)) {
    show({*gpu}, true, options.output);
    return 0;
  }
  const std::vector<Gpu> found = those_like(gpus, options.name);
  if (found.empty()) throw unknown_gpu(options.name, gpus);
  show(found, false, options.output);
  return 0;
}

}  // namespace

void add_gpus_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<GpusOptions>();
  CLI::App* const command = app.add_subcommand("gpus", "GPUs: what they hold and compute, with sources");
  command->add_option("name", options->name, "One of them, a part of names, or an architecture")->type_name("NAME");
  command->add_flag("--live", options->live, "Those of this machine, as nvidia-smi lists them");
  add_output_options(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_gpus(*options); });
}

}  // namespace gpuplan
