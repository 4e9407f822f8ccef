// What DeepSpeed's optimizers have in common: gradients as their hooks have them, and their norm.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "estimator/base/dtype.h"
#include "estimator/device/gpu.h"
#include "estimator/distributed/collective_writer.h"
#include "estimator/schedule/schedule.h"

namespace gpuplan {

/// Of Schedule::with_gradient, in the order that AccumulateGrad's hooks have them.
std::vector<std::size_t> arrivals(const Schedule& schedule);

/// get_grad_norm_direct(): a norm in fp64 of each of so many elements, kept until all are there.
void write_norms(std::span<const std::int64_t> elements, const Gpu& gpu, CollectiveWriter& writer);

/// A gradient that the rank has a part of, and that goes to the host.
struct GradientToHost {
  std::int64_t elements = 0, own = 0;  // of all of it, and of the part
  DType type = DType::bf16;
  std::int32_t norm = 0;  // the slot of the part's norm, which stays
};

/// copy_grads_in_partition() of stages 1 and 2 with "offload_optimizer": a norm in fp64, has_inf_or_nan() of the
/// gradient, and the copy in fp32 that the host is sent.
void write_to_host(const GradientToHost& gradient, std::int32_t stream, const Gpu& gpu, CollectiveWriter& writer);

}  // namespace gpuplan
