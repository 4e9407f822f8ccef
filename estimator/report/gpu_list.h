// GPUs as tables: what they are called, hold and compute.
#pragma once

#include <span>
#include <string>

#include "estimator/device/gpu.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

/// A row for each, in the order given: memory that cudaMalloc can hand out, bandwidth, dense peaks.
std::string gpu_list_text(std::span<const Gpu> gpus, const TextStyle& style);
/// Everything that is known of one, with its sources.
std::string gpu_text(const Gpu& gpu, const TextStyle& style);
/// gpuplan.gpus/1: {"schema", "gpus": [{"name", "title", "aliases", ...}]}; unknown is null.
std::string gpu_list_json(std::span<const Gpu> gpus);
/// The same figures, a GPU a line; unknown is empty.
std::string gpu_list_csv(std::span<const Gpu> gpus);
std::string gpu_list_md(std::span<const Gpu> gpus);

/// "82.6" of 82.6, "989" of 989.0, "1,979" of 1979: at most four digits that count.
std::string format_rate(double value);

}  // namespace gpuplan
