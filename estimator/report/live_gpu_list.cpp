#include "estimator/report/live_gpu_list.h"

#include <vector>

#include "estimator/base/format.h"
#include "estimator/report/gpu_json.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

// As nvidia-smi writes a slice.
std::string number_of(const LiveGpuRow& row) {
  return std::to_string(row.index) + (row.slice ? ":" + std::to_string(*row.slice) : "");
}

std::string advice(const LiveGpuRow& row) {
  if (const std::string argument = gpu_argument(row); !argument.empty())
    return "--gpu " + (argument.find(' ') == std::string::npos ? argument : '"' + argument + '"');
  if (row.slices > 0) return "one of its slices";
  if (row.sliced) return "the size of your MIG slice (nvidia-smi -L), as in --gpu \"9728 MiB\"";
  if (row.name.empty()) return "not known: the driver reports no name";
  if (row.slice) return "not known: the driver reports no size";
  return "not known: gpuplan calibrate -o gpu.yaml";
}

TextTable table_of(std::span<const LiveGpuRow> rows) {
  TextTable table({right, left, right, right, left});
  table.row({"", "GPU", "MiB", "free", "plan with"});
  const auto mib = [](std::int64_t bytes) { return bytes > 0 ? format_count(bytes >> 20) : std::string("-"); };
  for (const LiveGpuRow& row : rows)
    table.row(
        {number_of(row), row.name.empty() ? "?" : row.name, mib(row.total_bytes), mib(row.free_bytes), advice(row)});
  return table;
}

Json json_of(const LiveGpuRow& row) {
  const auto bytes = [](std::int64_t n) { return n > 0 ? Json(n) : Json(nullptr); };
  Json json = {{"index", row.index},
               {"slice", or_null(row.slice)},
               {"uuid", text_or_null(row.uuid)},
               {"driver_name", text_or_null(row.name)},
               {"reported_bytes", bytes(row.total_bytes)},
               {"free_bytes", row.total_bytes > 0 ? Json(row.free_bytes) : Json(nullptr)},
               {"mig", row.sliced},
               {"argument", text_or_null(gpu_argument(row))}};
  json.update(row.gpu ? gpus::gpu_json(*row.gpu) : gpus::no_gpu_json());
  return json;
}

std::vector<Json> list_of(std::span<const LiveGpuRow> rows) {
  std::vector<Json> list;
  for (const LiveGpuRow& row : rows) list.push_back(json_of(row));
  return list;
}

}  // namespace

std::string gpu_argument(const LiveGpuRow& row) {
  if (row.gpu) return row.gpu->name;
  return row.slice && row.total_bytes > 0 ? std::to_string(row.total_bytes >> 20) + " MiB" : "";
}

std::string live_gpus_text(std::span<const LiveGpuRow> rows) { return table_of(rows).text(); }
std::string live_gpus_md(std::span<const LiveGpuRow> rows) { return table_of(rows).markdown(); }
std::string live_gpus_json(std::span<const LiveGpuRow> rows) { return gpus::list_json(list_of(rows)); }
std::string live_gpus_csv(std::span<const LiveGpuRow> rows) { return gpus::list_csv(list_of(rows)); }

}  // namespace gpuplan
