// What a collective's kernel computes, on the host: for messages small enough to be exchanged.
#pragma once

#include <cstddef>
#include <span>

#include "validate/shadow/runtime/nccl_abi.h"

namespace gpuplan::shadow {

/// A reduction of ncclRedOp_t: one of the five built in, or a sum of contributions that are scaled first.
struct Reduction {
  int kind = kNcclSum;
  double factor = 1;  // of every contribution; 1 except where ncclRedOpCreatePreMulSum made it
};

/// `contributions` are the ranks' arrays of `count` elements each; null stands for an array of zeros. They may overlap
/// `result`. Floating-point types are computed in double precision and rounded once, so that the last digits can
/// differ from NCCL's, which rounds at every addition. Integer sums wrap.
void reduce(std::span<const std::byte* const> contributions, std::size_t count, int type, Reduction reduction,
            std::byte* result);

/// As though `ranks` ranks had contributed `own`.
void reduce_alike(const std::byte* own, int ranks, std::size_t count, int type, Reduction reduction, std::byte* result);

/// One element as a double.
double read_element(const std::byte* element, int type);

}  // namespace gpuplan::shadow
