// gpuplan instances: what clouds rent, with prices and their days. gpuplan instances import FILE: other catalogs.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "estimator/device/find_gpu.h"
#include "estimator/market/import_catalog.h"
#include "estimator/report/instance_list.h"
#include "tools/commands/commands.h"
#include "tools/options/instance_input.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

struct InstancesOptions {
  std::vector<std::string> gpus, providers;
  std::string region, prices, sort, count;
  bool spot = false;
  OutputOptions output;
};

struct CatalogOptions {
  std::string source, file, provider, region, date;
  bool force = false;
};

// "h100": that GPU, and no other whose name has it.
std::vector<std::string> gpu_names_of(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (const std::string& text : texts) {
    RunOptions run;
    run.gpu = text;
    names.push_back(load_gpu(run)->name);
  }
  return names;
}

double price_of(const Instance& i, bool spot) { return (spot ? i.spot_usd : i.usd).value_or(HUGE_VAL); }

void sort_by(std::vector<Instance>& list, const InstancesOptions& options) {
  const std::string key = options.sort.empty() ? "price" : options.sort;
  enum class By { price, gpu_price, name };
  const By by = choose<By>("--sort", key, {{"price", By::price}, {"gpu-price", By::gpu_price}, {"name", By::name}});
  std::ranges::stable_sort(list, [&](const Instance& a, const Instance& b) {
    if (by == By::name) return std::pair(a.provider, a.name) < std::pair(b.provider, b.name);
    const auto cost = [&](const Instance& i) {
      return price_of(i, options.spot) / (by == By::gpu_price ? i.gpu_count : 1.0);
    };
    return cost(a) < cost(b);
  });
}

std::vector<Instance> selected(InstancesOptions options) {
  std::vector<Instance> list = load_instances(options.prices, gpu_table());
  match_places(options.providers, options.region, list);
  const std::vector<std::string> gpus = gpu_names_of(options.gpus);
  const std::int64_t count = options.count.empty() ? 0 : whole_number("--count", options.count, 1, 1024);
  std::erase_if(list, [&](const Instance& i) {
    const auto lacks = [](const std::vector<std::string>& wanted, const std::string& name) {
      return !wanted.empty() && std::ranges::find(wanted, name) == wanted.end();
    };
    return lacks(gpus, i.gpu) || lacks(options.providers, i.provider) ||
           (!options.region.empty() && i.region != options.region) || (options.spot && !i.spot_usd) ||
           (count > 0 && i.gpu_count != static_cast<double>(count));
  });
  sort_by(list, options);
  return list;
}

std::string render(const std::vector<Instance>& list, Format format) {
  switch (format) {
    case Format::json: return instance_list_json(list, today());
    case Format::csv: return instances_csv(list);
    case Format::md: return instance_list_md(list);
    case Format::html:
    case Format::svg:
    case Format::table: break;
  }
  return instance_list_text(list, today());
}

int run_instances(const InstancesOptions& options) {
  refuse_table_styles(options.output);
  const Format format = format_of(options.output);
  const std::vector<Instance> list = selected(options);
  for (const OutputFile& file : files_of(options.output)) write_report(file, render(list, file.format));
  if (list.empty() && format == Format::table) {
    write_stdout("no instance matches; gpuplan instances lists all\n");
    return 1;
  }
  write_stdout(render(list, format));
  return 0;
}

std::string date_of(const CatalogOptions& options) {
  if (options.date.empty()) return date_text(day_of_file(options.source));
  if (!day_of(options.date)) throw Error("--date expects YYYY-MM-DD, not \"" + options.date + "\"", ErrorKind::usage);
  return options.date;
}

void tell_what_was_left_out(const ImportedCatalog& catalog, const std::string& date) {
  write_stderr(std::to_string(catalog.instances.size()) + " instances, prices of " + date + "\n");
  if (catalog.without_gpu > 0)
    write_stderr("left out " + std::to_string(catalog.without_gpu) + " rows without an NVIDIA GPU\n");
  if (catalog.without_price > 0)
    write_stderr("left out " + std::to_string(catalog.without_price) + " rows without a price\n");
  if (catalog.other_prices > 0)
    write_stderr("kept the cheapest where rows of one instance and region have several prices: " +
                 std::to_string(catalog.other_prices) + (catalog.other_prices == 1 ? " row" : " rows") +
                 ", the first of " + catalog.with_other_prices + "\n");
  for (const auto& [name, rows] : catalog.unknown_gpus)
    write_stderr("left out " + std::to_string(rows) + " rows of \"" + name + "\", an unknown GPU\n");
}

// They stand in every row.
void refuse_control_characters(const char* flag, const std::string& word) {
  if (std::ranges::any_of(word, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    throw Error(std::string(flag) + " has a line break or a control character", ErrorKind::usage);
}

int run_catalog(const CatalogOptions& options) {
  const std::shared_ptr<const Source> source = read_file_source(options.source, kCatalogLimit);
  refuse_control_characters("--provider", options.provider);
  refuse_control_characters("--region", options.region);
  const bool names_provider = CsvTable(*source).has("provider");
  if (options.provider.empty() && !names_provider)
    throw Error("the catalog does not name its cloud", ErrorKind::usage).help("name it, for example --provider aws");
  const std::string date = date_of(options);
  const ImportedCatalog catalog =
      import_catalog(*source, {.provider = options.provider, .region = options.region, .date = date}, gpu_table());
  tell_what_was_left_out(catalog, date);
  if (catalog.instances.empty()) {
    write_stderr("no rows are left to write\n");
    return 1;
  }
  const std::string text = instances_csv(catalog.instances);
  if (options.file.empty() || options.file == "-")
    write_stdout(text);
  else
    write_report({.path = options.file, .force = options.force}, text);
  return 0;
}

void add_catalog_command(CLI::App& instances, int& exit_code) {
  const auto options = std::make_shared<CatalogOptions>();
  CLI::App* const command =
      instances.add_subcommand("import", "Converts a SkyPilot or gpuhunt catalog to a file for --prices");
  command->add_option("file", options->source, "The CSV file, or - for standard input")->required()->type_name("FILE");
  command->add_option("-o,--output", options->file, "File to write (standard output)")->type_name("FILE");
  command->add_flag("--force", options->force,
                    "Replaces the file even if it is a model, a budget, a trace or a script");
  command->add_option("--provider", options->provider, "The cloud, if the catalog does not name it")->type_name("NAME");
  command->add_option("--region", options->region, "Only this region")->type_name("NAME");
  command->add_option("--date", options->date, "Date of the prices (the file's modification date)")
      ->type_name("YYYY-MM-DD");
  command->callback([options, &exit_code] { exit_code = run_catalog(*options); });
}

}  // namespace

void add_instances_command(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<InstancesOptions>();
  CLI::App* const command = app.add_subcommand("instances", "Lists cloud instances and their prices");
  command->require_subcommand(0, 1);
  command->add_option("--gpu", options->gpus, "Only instances with these GPUs, comma-separated")
      ->delimiter(',')
      ->type_name("NAME");
  command->add_option("--provider", options->providers, "Only these clouds, comma-separated")
      ->delimiter(',')
      ->type_name("NAME");
  command->add_option("--region", options->region, "Only this region")->type_name("NAME");
  command->add_option("--count", options->count, "Only instances with N GPUs")->type_name("N");
  command->add_flag("--spot", options->spot, "Only instances with a spot price, sorted by it");
  command->add_option("--sort", options->sort, "Order: by price, by price per GPU, or by name (price)")
      ->type_name("price|gpu-price|name");
  command->add_option("--prices", options->prices, "Uses this file, written by instances import")->type_name("FILE");
  add_output_options(*command, options->output);
  add_catalog_command(*command, exit_code);
  command->callback([options, command, &exit_code] {
    if (command->get_subcommands().empty()) exit_code = run_instances(*options);
  });
}

}  // namespace gpuplan
