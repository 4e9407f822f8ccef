#include "estimator/market/import_catalog.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

#include "estimator/base/number_text.h"
#include "estimator/device/find_gpu.h"
#include "estimator/market/number_field.h"

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 5> kSkyPilot = {"InstanceType", "AcceleratorName", "AcceleratorCount", "Price",
                                                       "Region"};
constexpr std::array<std::string_view, 6> kGpuhunt = {"instance_name", "location", "price",
                                                      "gpu_count",     "gpu_name", "spot"};

template <std::size_t n>
std::string missing_of(const CsvTable& table, const std::array<std::string_view, n>& columns) {
  std::string missing;
  for (const std::string_view column : columns)
    if (!table.has(column)) missing += (missing.empty() ? "" : ", ") + std::string(column);
  return missing;
}

// A price of 0 is SkyPilot's way to say that none is known.
std::optional<double> price_of(const CsvField& field, std::string_view what) {
  return field.text.find_first_not_of("0.") == std::string::npos ? std::nullopt : number_field(field, what);
}

void keep_cheaper(std::optional<double>& price, const std::optional<double>& other) {
  if (other && (!price || *other < *price)) price = other;
}

// Rows become instances here, one for each name and region.
class Collector {
 public:
  Collector(const CatalogImport& options, std::span<const Gpu> gpus) : options_(options), gpus_(gpus) {}

  bool wanted(const std::string& region) const { return options_.region.empty() || options_.region == region; }

  const Gpu* gpu_called(const std::string& name, const std::string& gib) {
    if (!gib.empty())
      if (const Gpu* const gpu = find_gpu(gpus_, name + "-" + gib + "GB")) return gpu;
    const Gpu* const gpu = find_gpu(gpus_, name);
    if (gpu == nullptr) ++out_.unknown_gpus[name];
    return gpu;
  }

  void add(Instance row) {
    if (!row.usd && !row.spot_usd) {
      ++out_.without_price;
      return;
    }
    const auto [at, is_new] = by_name_.try_emplace({row.name, row.region, row.gpu, row.gpu_count}, std::move(row));
    if (is_new) return;
    if (row.usd && at->second.usd && *row.usd != *at->second.usd && out_.other_prices++ == 0)
      out_.with_other_prices = row.name + (row.region.empty() ? "" : " in " + row.region);
    keep_cheaper(at->second.usd, row.usd);
    keep_cheaper(at->second.spot_usd, row.spot_usd);
  }
  void skip_without_gpu() { ++out_.without_gpu; }

  ImportedCatalog finish() {
    for (auto& [key, instance] : by_name_) out_.instances.push_back(std::move(instance));
    std::ranges::stable_sort(out_.instances, {}, [](const Instance& i) { return i.usd.value_or(HUGE_VAL); });
    return std::move(out_);
  }

 private:
  const CatalogImport& options_;
  std::span<const Gpu> gpus_;
  std::map<std::tuple<std::string, std::string, std::string, double>, Instance> by_name_;
  ImportedCatalog out_;
};

Instance begin(const CatalogImport& options, std::string_view what) {
  Instance i;
  i.provider = options.provider;
  i.price_date = options.date;
  i.source = what;
  return i;
}

// Machine types of GCP that come with their GPUs (cloud.google.com/compute/docs/gpus): the name of the GPU in
// SkyPilot's catalog, and how many; 0: as many as the name says ("a2-highgpu-4g").
struct WithGpus {
  std::string_view prefix, gpu;
  int count = 0;
};
constexpr std::array<WithGpus, 15> kWithGpus = {{{"a2-highgpu-", "A100", 0},
                                                 {"a2-megagpu-", "A100", 0},
                                                 {"a2-ultragpu-", "A100-80GB", 0},
                                                 {"a3-highgpu-", "H100", 0},
                                                 {"a3-megagpu-", "H100-MEGA", 0},
                                                 {"a3-edgegpu-", "H100", 0},
                                                 {"a3-ultragpu-", "H200", 0},
                                                 {"a4-highgpu-", "B200", 0},
                                                 {"g2-standard-24", "L4", 2},
                                                 {"g2-standard-48", "L4", 4},
                                                 {"g2-standard-96", "L4", 8},
                                                 {"g2-standard-4", "L4", 1},
                                                 {"g2-standard-8", "L4", 1},
                                                 {"g2-standard-12", "L4", 1},
                                                 {"g2-standard-16", "L4", 1}}};

const WithGpus* gpus_with(const std::string& machine) {
  for (const WithGpus& w : kWithGpus)
    if (w.count > 0 ? machine == w.prefix : machine.starts_with(w.prefix)) return &w;
  return machine == "g2-standard-32" ? gpus_with("g2-standard-16") : nullptr;
}

int count_with(const WithGpus& with, const std::string& machine) {
  if (with.count > 0) return with.count;
  int count = 0;
  for (std::size_t i = with.prefix.size(); i < machine.size() && machine[i] >= '0' && machine[i] <= '9' && count < 100;
       ++i)
    count = 10 * count + (machine[i] - '0');
  return count;
}

std::optional<double> sum_of(const std::optional<double>& host, const std::optional<double>& gpu) {
  return host && gpu ? std::optional(*host + *gpu) : std::nullopt;
}

// Host and GPU as rows of their own.
class SplitRows {
 public:
  void remember_gpu(const CsvTable& table, std::size_t row) {
    const auto count = number_field(table.at(row, "AcceleratorCount"), "AcceleratorCount");
    if (!count) return;
    Price& price = gpus_[{table.at(row, "AcceleratorName").text, *count, table.at(row, "Region").text}];
    keep_cheaper(price.usd, price_of(table.at(row, "Price"), "Price"));
    keep_cheaper(price.spot_usd, price_of(table.at(row, "SpotPrice"), "SpotPrice"));
  }
  // Adds the GPUs to a host that comes with them; false where it comes with none.
  bool add_gpus(Instance& host, std::string& gpu) const {
    const WithGpus* const with = gpus_with(host.name);
    if (with == nullptr) return false;
    gpu = with->gpu;
    host.gpu_count = count_with(*with, host.name);
    const auto at = gpus_.find({gpu, host.gpu_count, host.region});
    const Price price = at == gpus_.end() ? Price{} : at->second;
    host.usd = sum_of(host.usd, price.usd);
    host.spot_usd = sum_of(host.spot_usd, price.spot_usd);
    return true;
  }

 private:
  struct Price {
    std::optional<double> usd, spot_usd;
  };
  std::map<std::tuple<std::string, double, std::string>, Price> gpus_;
};

ImportedCatalog import_skypilot(const CsvTable& table, const CatalogImport& options, std::span<const Gpu> gpus) {
  Collector collector(options, gpus);
  SplitRows split;
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (table.at(row, "InstanceType").text.empty()) split.remember_gpu(table, row);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Instance i = begin(options, "SkyPilot's catalog");
    i.name = table.at(row, "InstanceType").text;
    i.region = table.at(row, "Region").text;
    if (i.name.empty() || !collector.wanted(i.region)) continue;
    i.vcpus = number_field(table.at(row, "vCPUs"), "vCPUs");
    i.host_memory_gib = number_field(table.at(row, "MemoryGiB"), "MemoryGiB");
    i.usd = price_of(table.at(row, "Price"), "Price");
    i.spot_usd = price_of(table.at(row, "SpotPrice"), "SpotPrice");
    std::string name = table.at(row, "AcceleratorName").text;
    const std::optional<double> count = number_field(table.at(row, "AcceleratorCount"), "AcceleratorCount");
    if (count) i.gpu_count = *count;
    if ((name.empty() || !count) && !split.add_gpus(i, name)) {
      collector.skip_without_gpu();
      continue;
    }
    const Gpu* const gpu = collector.gpu_called(name, "");
    if (gpu == nullptr) continue;
    i.gpu = gpu->name;
    collector.add(std::move(i));
  }
  return collector.finish();
}

ImportedCatalog import_gpuhunt(const CsvTable& table, const CatalogImport& options, std::span<const Gpu> gpus) {
  Collector collector(options, gpus);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto text = [&](std::string_view column) -> const std::string& { return table.at(row, column).text; };
    Instance i = begin(options, "gpuhunt's catalog");
    if (!text("provider").empty()) i.provider = text("provider");
    i.name = text("instance_name");
    i.region = text("location");
    if (i.name.empty() || !collector.wanted(i.region)) continue;
    const std::string& count = text("gpu_count");
    const bool of_another_vendor = !text("gpu_vendor").empty() && text("gpu_vendor") != "nvidia";
    if (count.empty() || count.find_first_not_of("0.") == std::string::npos || of_another_vendor) {
      collector.skip_without_gpu();
      continue;
    }
    i.gpu_count = *number_field(table.at(row, "gpu_count"), "gpu_count");
    i.vcpus = number_field(table.at(row, "cpu"), "cpu");
    i.host_memory_gib = number_field(table.at(row, "memory"), "memory");
    const bool spot = text("spot") == "True" || text("spot") == "true";
    (spot ? i.spot_usd : i.usd) = price_of(table.at(row, "price"), "price");
    const std::optional<double> gib = number_field(table.at(row, "gpu_memory"), "gpu_memory");
    const Gpu* const gpu = collector.gpu_called(text("gpu_name"), gib ? number_text(*gib) : "");
    if (gpu == nullptr) continue;
    i.gpu = gpu->name;
    collector.add(std::move(i));
  }
  return collector.finish();
}

}  // namespace

CatalogFormat recognise_catalog(const CsvTable& table) {
  const std::string skypilot = missing_of(table, kSkyPilot), gpuhunt = missing_of(table, kGpuhunt);
  if (skypilot.empty()) return CatalogFormat::skypilot;
  if (gpuhunt.empty()) return CatalogFormat::gpuhunt;
  if (table.has("on_demand_usd_per_hour"))
    throw Error("this file was written by gpuplan instances import already")
        .at(table.columns().front().mark)
        .help("gpuplan instances --prices FILE and gpuplan fit --prices FILE take them");
  throw Error("this is neither a SkyPilot nor a gpuhunt catalog")
      .at(table.columns().front().mark)
      .help("SkyPilot's would have the columns " + skypilot + " too, gpuhunt's " + gpuhunt);
}

ImportedCatalog import_catalog(const Source& source, const CatalogImport& options, std::span<const Gpu> gpus) {
  const CsvTable table(source);
  const CatalogFormat format = recognise_catalog(table);
  return format == CatalogFormat::skypilot ? import_skypilot(table, options, gpus)
                                           : import_gpuhunt(table, options, gpus);
}

}  // namespace gpuplan
