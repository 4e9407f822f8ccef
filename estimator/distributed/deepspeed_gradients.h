// What DeepSpeed's optimizers have in common: gradients as their hooks have them, and their norm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// Of Schedule::with_gradient, in the order that AccumulateGrad's hooks have them.
std::vector<std::size_t> arrivals(const Schedule& schedule);

/// get_grad_norm_direct(): a norm in fp64 of each of so many elements, kept until all are there.
void write_norms(std::span<const std::int64_t> elements, const Gpu& gpu, CollectiveWriter& writer);

}  // namespace gpuplan
