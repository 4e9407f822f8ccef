// Catalogs of prices that others keep: SkyPilot's vms.csv (one for each cloud) and gpuhunt's catalog. Both change
// hourly; what is read here is a file that the user downloaded on some day.
//   https://github.com/skypilot-org/skypilot-catalog  catalogs/v8/CLOUD/vms.csv
//   https://github.com/dstackai/gpuhunt               fields of CatalogItem
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "estimator/base/csv.h"
#include "estimator/market/instance.h"

namespace gpuplan {

enum class CatalogFormat { skypilot, gpuhunt };

struct CatalogImport {
  std::string provider;  // "aws"; SkyPilot's files do not say
  std::string region;    // only this one; "": all
  std::string date;      // of the prices
};

struct ImportedCatalog {
  std::vector<Instance> instances;          // sorted by price
  std::map<std::string, int> unknown_gpus;  // name in the catalog, rows that were left out
  int without_gpu = 0, without_price = 0;   // rows that were left out
  int other_prices = 0;                     // rows of an instance and region that had another price on demand
  std::string with_other_prices;            // the first of those instances, "g6.xlarge in us-east-1"
};

/// By its columns. Throws Error that names what is missing of both.
CatalogFormat recognise_catalog(const CsvTable& table);

/// The cheapest row of each instance in each region, over its zones. Spot and on-demand prices stay apart; a price of 0
/// or none is not known, and an instance without any is left out. Of SkyPilot's GCP file, whose host and GPU are rows
/// of their own, the machine types that come with their GPUs are joined by region; a GPU added to an n1 is left out.
/// Throws Error, with the place, for fields that are not what they should be.
ImportedCatalog import_catalog(const Source& source, const CatalogImport& options, std::span<const Gpu> gpus);

}  // namespace gpuplan
