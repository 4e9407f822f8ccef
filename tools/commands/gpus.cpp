// gpuplan gpus [NAME]: the GPUs that are known, one of them, one of a file, or those of this machine.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "estimator/base/excerpt.h"
#include "estimator/device/find_gpu.h"
#include "estimator/device/read_gpu.h"
#include "estimator/report/gpu_list.h"
#include "estimator/report/live_gpu_list.h"
#include "tools/commands/commands.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/unknown_gpu.h"
#include "tools/process/read_source.h"
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
    case Format::html:
    case Format::svg:
    case Format::table: break;
  }
  return one ? gpu_text(gpus.front(), style) : gpu_list_text(gpus, style);
}

void show(const std::vector<Gpu>& gpus, bool one, const OutputOptions& output) {
  for (const OutputFile& file : files_of(output))
    write_report(file, render(gpus, one, file.format, file_style(output)));
  write_stdout(render(gpus, one, format_of(output), terminal_style(output)));
}

// By the name that the driver has for it, or as people call it.
const Gpu* known(const std::vector<Gpu>& gpus, const std::string& name) {
  const auto named = std::ranges::find(gpus, name, &Gpu::cuda_name);
  return named != gpus.end() ? &*named : find_gpu(gpus, name);
}

std::string render_live(std::span<const LiveGpuRow> rows, Format format) {
  switch (format) {
    case Format::json: return live_gpus_json(rows);
    case Format::csv: return live_gpus_csv(rows);
    case Format::md: return live_gpus_md(rows);
    case Format::html:
    case Format::svg:
    case Format::table: break;
  }
  return live_gpus_text(rows);
}

int run_live(const GpusOptions& options) {
  const std::vector<Gpu> gpus = gpu_table();
  std::vector<LiveGpuRow> rows;
  for (const LiveGpu& live : live_gpus()) {
    LiveGpuRow& row = rows.emplace_back();
    row.index = live.index;
    row.slice = live.slice;
    row.uuid = printable_text(live.uuid);
    row.name = printable_text(live.name);
    row.total_bytes = live.total_bytes;
    row.free_bytes = live.free_bytes;
    row.sliced = live.mig;
    row.slices = live.slices;
    const Gpu* const gpu = live.name.empty() ? nullptr : known(gpus, live.name);
    if (gpu != nullptr && !live.mig && !live.slice) row.gpu = *gpu;  // a slice is not the card
  }
  for (const OutputFile& file : files_of(options.output)) write_report(file, render_live(rows, file.format));
  write_stdout(render_live(rows, format_of(options.output)));
  return 0;
}

int run_gpus(const GpusOptions& options) {
  refuse_table_styles(options.output);
  if (options.live && !options.name.empty())
    throw Error("--live lists all GPUs of this machine: leave out the name", ErrorKind::usage);
  if (options.live) return run_live(options);
  if (is_gpu_file(options.name)) {
    show({read_gpu(*read_file_source(options.name))}, true, options.output);
    return 0;
  }
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
  CLI::App* const command = app.add_subcommand("gpus", "Lists GPUs: memory, peak rates, sources");
  command->add_option("name", options->name, "A GPU, part of a name, an architecture, or a GPU file (all)")
      ->type_name("NAME");
  command->add_flag("--live", options->live, "Lists the GPUs of this machine, as nvidia-smi does");
  add_output_options(*command, options->output);
  command->callback([options, &exit_code] { exit_code = run_gpus(*options); });
}

}  // namespace gpuplan
