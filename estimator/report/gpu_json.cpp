#include "estimator/report/gpu_json.h"

#include "estimator/base/csv.h"
#include "estimator/base/list_text.h"

namespace gpuplan::gpus {

std::string capability(const Gpu& gpu) {
  return std::to_string(gpu.capability_major) + "." + std::to_string(gpu.capability_minor);
}

Json gpu_json(const Gpu& gpu) {
  const Datasheet sheet = gpu.datasheet.value_or(Datasheet{});
  Json rates = Json::object();
  for (std::size_t r = 0; r < kRateNames.size(); ++r) rates[std::string(kRateNames[r])] = or_null(sheet.teraflops[r]);
  return {{"name", gpu.name},
          {"title", gpu.title},
          {"aliases", gpu.aliases},
          {"architecture", gpu.architecture},
          {"chip", text_or_null(sheet.chip)},
          {"compute_capability", capability(gpu)},
          {"sm_count", gpu.sm_count},
          {"memory_bytes", gpu.memory_assumed ? Json(nullptr) : Json(gpu.memory_bytes)},
          {"cuda_total_bytes", or_null(gpu.cuda_total_bytes)},
          {"usable_bytes", usable_bytes(gpu)},
          {"memory_gib", gpu.datasheet ? Json(sheet.memory_gib) : Json(nullptr)},
          {"memory_type", text_or_null(sheet.memory_type)},
          {"bandwidth_gb_s", gpu.datasheet ? Json(sheet.bandwidth_gb_s) : Json(nullptr)},
          {"l2_mib", or_null(sheet.l2_mib)},
          {"teraflops", rates},
          {"fp32_accumulate", text_or_null(sheet.fp32_accumulate)},
          {"host_link_gb_s", or_null(sheet.host_link_gb_s)},
          {"nvlink_gb_s", or_null(sheet.nvlink_gb_s)},
          {"tdp_w", or_null(sheet.tdp_w)},
          {"year", gpu.datasheet ? Json(sheet.year) : Json(nullptr)},
          {"derived", sheet.derived},
          {"source", text_or_null(sheet.source)}};
}

Json no_gpu_json() {
  Json json = gpu_json({});
  for (auto& [key, value] : json.items()) {
    if (value.is_object())
      for (auto& [rate, peak] : value.items()) peak = nullptr;
    else if (!value.is_array())
      value = nullptr;
  }
  return json;
}

std::string list_json(const Json& list) { return json_text({{"schema", "gpuplan.gpus/1"}, {"gpus", list}}); }

std::string list_csv(std::span<const Json> gpus) {
  std::string out;
  for (const Json& json : gpus) {
    std::string head, line;
    const auto add = [&](const std::string& name, const Json& value) {
      const std::string comma = line.empty() ? "" : ",";
      head += comma + name;
      line += comma + csv_field(value.is_null() ? "" : value.is_string() ? value.get<std::string>() : value.dump());
    };
    for (const auto& [name, value] : json.items()) {
      if (name == "teraflops")
        for (const auto& [rate, peak] : value.items()) add(rate + "_teraflops", peak);
      else if (value.is_array())
        add(name, joined(value.get<std::vector<std::string>>()));
      else
        add(name, value);
    }
    if (out.empty()) out = head + "\n";
    out += line + "\n";
  }
  return out;
}

}  // namespace gpuplan::gpus
