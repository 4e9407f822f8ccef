// The arguments of each operation of a schedule, for executors: operands with storage, shape and strides, and
// non-tensor arguments. Recorded only on request, since planning does not need them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "estimator/graph/graph.h"

namespace gpuplan {

struct OperandView {
  BufferId buffer = kNone;  // kNone: an optional argument that was not given
  Shape shape;
  Strides strides;
  std::int64_t offset = 0;  // elements from the beginning of the storage
  DType dtype = DType::fp32;
};

struct KernelCall {
  std::int32_t step = kNone;   // of Schedule::steps
  Range reads, extra, writes;  // of Calls::operands, as of Op; what an operation in place writes it reads first
  Range attributes;            // of Calls::attributes
};

struct Calls {
  std::vector<KernelCall> calls;  // in the order of their steps; markers have none
  std::vector<OperandView> operands;
  std::vector<AttributeValue> attributes;
  std::vector<OperandView> gradients;  // the parameters', one a member of Schedule::with_gradient

  std::span<const OperandView> at(Range r) const {
    return std::span(operands).subspan(static_cast<std::size_t>(r.begin), static_cast<std::size_t>(r.end - r.begin));
  }
  std::span<const AttributeValue> attributes_of(const KernelCall& c) const {
    return std::span(attributes)
        .subspan(static_cast<std::size_t>(c.attributes.begin),
                 static_cast<std::size_t>(c.attributes.end - c.attributes.begin));
  }
};

/// A forward tensor, stored in `buffer`.
inline OperandView view_of(const Tensor& t, BufferId buffer) { return {buffer, t.shape, t.strides, t.offset, t.dtype}; }

}  // namespace gpuplan
