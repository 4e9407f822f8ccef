#include "estimator/report/instance_list.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "estimator/base/number_text.h"
#include "estimator/report/json_parts.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

// "8", "0.125"
std::string count_text(double count) { return number_text(count); }

std::string memory_text(const Instance& i) { return i.host_memory_gib ? number_text(*i.host_memory_gib) : ""; }

TextTable table_of(std::span<const Instance> instances) {
  TextTable table({left, left, right, left, right, right, right, right, left, left});
  table.row({"provider", "instance", "GPUs", "", "vCPUs", "GiB", "USD/h", "spot", "region", "price date"});
  for (const Instance& i : instances)
    table.row({i.provider, i.name, count_text(i.gpu_count), i.gpu, i.vcpus ? number_text(*i.vcpus) : "", memory_text(i),
               format_usd(i.usd), format_usd(i.spot_usd), i.region, i.price_date});
  return table;
}

}  // namespace

std::string format_usd(const std::optional<double>& usd) {
  if (!usd) return "";
  char text[48];
  int decimals = *usd < 10 ? 3 : 2;
  if (*usd > 0 && *usd < 0.1) decimals = std::min(9, 2 - static_cast<int>(std::floor(std::log10(*usd))));
  std::snprintf(text, sizeof text, "%.*f", decimals, *usd);
  for (char* c = text; *c != '\0'; ++c)
    if (*c == ',') *c = '.';  // of a locale
  return text;
}

std::string stale_prices_text(std::span<const Instance> instances, Day today) {
  int prices = 0, old = 0, ahead = 0;
  Day oldest = today;
  for (const Instance& i : instances) {
    if (!i.usd && !i.spot_usd) continue;
    ++prices;
    const std::optional<Day> day = oldest_day(i.price_date);
    if (!day) continue;
    if (*day > today + 1) ++ahead;  // a day begins earlier elsewhere
    if (today - *day <= kStalePriceDays) continue;
    ++old;
    oldest = std::min(oldest, *day);
  }
  const std::string early = ahead == 0 ? ""
                                       : "  " + std::to_string(ahead) + " of " + std::to_string(prices) +
                                             " prices are dated in the future: see \"price date\"\n";
  if (old == 0) return early;
  return early + "  " + std::to_string(old) + " of " + std::to_string(prices) + " prices are older than " +
         std::to_string(kStalePriceDays) + " days, the oldest " + std::to_string(today - oldest) +
         " days: gpuplan instances import FILE refreshes them\n";
}

std::string instance_list_text(std::span<const Instance> instances, Day today) {
  return table_of(instances).text() + "  USD/h: for the whole instance, Linux, on demand; empty: not known\n" +
         stale_prices_text(instances, today);
}

std::string instance_list_md(std::span<const Instance> instances) { return table_of(instances).markdown(); }

std::string instance_list_json(std::span<const Instance> instances, Day today) {
  Json list = Json::array();
  for (const Instance& i : instances) {
    const std::optional<Day> day = oldest_day(i.price_date);
    list.push_back({{"provider", i.provider},
                    {"name", i.name},
                    {"gpu", i.gpu},
                    {"gpu_count", i.gpu_count},
                    {"vcpus", or_null(i.vcpus)},
                    {"host_memory_gib", or_null(i.host_memory_gib)},
                    {"local_ssd_gb", or_null(i.local_ssd_gb)},
                    {"network_gbps", or_null(i.network_gbps)},
                    {"interconnect", text_or_null(i.interconnect)},
                    {"usd_per_hour", or_null(i.usd)},
                    {"spot_usd_per_hour", or_null(i.spot_usd)},
                    {"region", text_or_null(i.region)},
                    {"price_date", text_or_null(i.price_date)},
                    {"price_age_days", day ? Json(today - *day) : Json(nullptr)},
                    {"pcie_width", or_null(i.pcie_width)},
                    {"notes", text_or_null(i.notes)},
                    {"source", text_or_null(i.source)}});
  }
  return json_text({{"schema", "gpuplan.instances/1"}, {"instances", list}});
}

}  // namespace gpuplan
