#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "estimator/base/calendar.h"
#include "estimator/base/number_text.h"
#include "estimator/device/find_gpu.h"
#include "estimator/market/instance.h"
#include "estimator/market/number_field.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 17> kColumns = {"provider",
                                                       "instance_type",
                                                       "gpu",
                                                       "gpu_count",
                                                       "vcpus",
                                                       "host_memory_gib",
                                                       "local_ssd_gb",
                                                       "network_gbps",
                                                       "interconnect",
                                                       "on_demand_usd_per_hour",
                                                       "spot_usd_per_hour",
                                                       "region",
                                                       "price_date",
                                                       "gpu_pcie_width_measured",
                                                       "most_gpus",
                                                       "notes",
                                                       "source"};
constexpr std::array<std::string_view, 6> kNeeded = {"provider",  "instance_type",          "gpu",
                                                     "gpu_count", "on_demand_usd_per_hour", "price_date"};

void expect_columns(const CsvTable& table) {
  std::vector<std::string> known(kColumns.begin(), kColumns.end());
  for (const CsvField& column : table.columns())
    if (std::ranges::find(kColumns, column.text) == kColumns.end())
      throw Error("unknown column \"" + column.text + "\"" + did_you_mean(column.text, known))
          .at(column.mark)
          .help("gpuplan instances import FILE reads the catalogs of SkyPilot and gpuhunt");
  for (const std::string_view column : kNeeded)
    if (!table.has(column))
      throw Error("the column " + std::string(column) + " is missing")
          .at(table.columns().front().mark)
          .help("gpuplan instances import FILE reads the catalogs of SkyPilot and gpuhunt");
}

const std::string& text_of(const CsvTable& table, std::size_t row, std::string_view column) {
  const CsvField& field = table.at(row, column);
  if (field.text.empty()) throw Error(std::string(column) + " is empty").at(field.mark);
  return field.text;
}

std::string gpu_of(const CsvField& field, std::span<const Gpu> gpus) {
  if (const Gpu* const gpu = find_gpu(gpus, field.text)) return gpu->name;
  std::vector<std::string> words;
  for (const Gpu& gpu : gpus) {
    words.push_back(gpu.name);
    words.insert(words.end(), gpu.aliases.begin(), gpu.aliases.end());
  }
  throw Error("no GPU is called \"" + field.text + "\"" + did_you_mean(field.text, words)).at(field.mark);
}

std::optional<int> lanes_of(const CsvField& field) {
  if (field.text.empty()) return std::nullopt;
  if (field.text == "x8") return 8;
  if (field.text == "x16") return 16;
  throw Error("a PCIe width is x8 or x16, not \"" + field.text + "\"").at(field.mark);
}

constexpr int kMostGpusOfInstance = 1024;

std::optional<int> most_of(const CsvField& field, const Instance& instance) {
  constexpr int kMost = 64;
  const std::optional<double> most = number_field(field, "most_gpus");
  if (!most) return std::nullopt;
  if (*most < 2 || *most > kMost || *most != std::floor(*most))
    throw Error("most_gpus is a whole number from 2 to " + std::to_string(kMost) + ", not " + field.text)
        .at(field.mark)
        .help("how many GPUs of what is sold one by one may be rented in one machine; empty for all else");
  if (instance.gpu_count != 1)
    throw Error("most_gpus is of what is sold by the GPU, and " + instance.name + " has " +
                number_text(instance.gpu_count) + " of them")
        .at(field.mark)
        .help("leave it empty, or say gpu_count 1");
  return static_cast<int>(*most);
}

std::string interconnect_of(const CsvField& field) {
  if (field.text.empty() || field.text == "nvlink" || field.text == "pcie") return field.text;
  throw Error("an interconnect is nvlink or pcie, not \"" + field.text + "\"").at(field.mark);
}

// What has a price has a day.
std::string date_of(const CsvField& field, const Instance& instance) {
  if ((instance.usd || instance.spot_usd) && !oldest_day(field.text))
    throw Error("a price has a day, YYYY-MM-DD, not \"" + field.text + "\"").at(field.mark);
  return field.text;
}

Instance instance_of(const CsvTable& table, std::size_t row, std::span<const Gpu> gpus) {
  const auto number = [&](std::string_view column) { return number_field(table.at(row, column), column); };
  Instance i;
  i.provider = text_of(table, row, "provider");
  i.name = text_of(table, row, "instance_type");
  (void)text_of(table, row, "gpu");
  i.gpu = gpu_of(table.at(row, "gpu"), gpus);
  (void)text_of(table, row, "gpu_count");
  i.gpu_count = *number("gpu_count");
  if (i.gpu_count > kMostGpusOfInstance)
    throw Error("gpu_count is " + std::to_string(kMostGpusOfInstance) + " at most, not " +
                table.at(row, "gpu_count").text)
        .at(table.at(row, "gpu_count").mark)
        .help("an instance is one machine, or what NVLink connects");
  i.vcpus = number("vcpus");
  i.host_memory_gib = number("host_memory_gib");
  i.local_ssd_gb = number("local_ssd_gb");
  i.network_gbps = number("network_gbps");
  i.interconnect = interconnect_of(table.at(row, "interconnect"));
  i.usd = number("on_demand_usd_per_hour");
  i.spot_usd = number("spot_usd_per_hour");
  i.region = table.at(row, "region").text;
  i.price_date = date_of(table.at(row, "price_date"), i);
  i.pcie_width = lanes_of(table.at(row, "gpu_pcie_width_measured"));
  i.most_gpus = most_of(table.at(row, "most_gpus"), i);
  i.notes = table.at(row, "notes").text;
  i.source = table.at(row, "source").text;
  return i;
}

}  // namespace

std::vector<Instance> read_instances(const Source& source, std::span<const Gpu> gpus) {
  const CsvTable table(source);
  expect_columns(table);
  std::vector<Instance> instances;
  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Instance i = instance_of(table, row, gpus);
    if (!seen.emplace(i.provider, i.name, i.region).second)
      throw Error(i.provider + " " + i.name + " appears twice" + (i.region.empty() ? "" : " in " + i.region))
          .at(table.at(row, "instance_type").mark);
    instances.push_back(std::move(i));
  }
  return instances;
}

std::string instances_csv(std::span<const Instance> instances) {
  std::string out;
  for (const std::string_view column : kColumns) out += (out.empty() ? "" : ",") + std::string(column);
  out += "\n";
  const auto number = [](const std::optional<double>& value) { return value ? number_text(*value) : ""; };
  for (const Instance& i : instances) {
    const std::array<std::string, kColumns.size()> fields = {i.provider,
                                                             i.name,
                                                             i.gpu,
                                                             number_text(i.gpu_count),
                                                             number(i.vcpus),
                                                             number(i.host_memory_gib),
                                                             number(i.local_ssd_gb),
                                                             number(i.network_gbps),
                                                             i.interconnect,
                                                             number(i.usd),
                                                             number(i.spot_usd),
                                                             i.region,
                                                             i.price_date,
                                                             i.pcie_width ? "x" + std::to_string(*i.pcie_width) : "",
                                                             i.most_gpus ? std::to_string(*i.most_gpus) : "",
                                                             i.notes,
                                                             i.source};
    for (std::size_t f = 0; f < fields.size(); ++f) out += (f > 0 ? "," : "") + csv_field(fields[f]);
    out += "\n";
  }
  return out;
}

}  // namespace gpuplan
