// Writes an OptimizerProgram in the terms of the Python code it stands for: tensors are made, bound to local
// names, and freed when the last name lets go. Bytes are unrounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "estimator/optimizer/optimizer.h"

namespace gpuplan {

/// What a local name of the step holds: `count` tensors in consecutive slots; nothing when 0.
struct Tensors {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

inline std::int64_t bytes_of(const OptimizerParameter& parameter) {
  return parameter.elements * size_of(parameter.dtype);
}

class StepBuilder {
 public:
  explicit StepBuilder(std::size_t expected_events) { program_.events.reserve(expected_events); }

  void state(std::int64_t bytes) { allocate(OptimizerEvent::Kind::alloc_state, bytes); }
  Tensors tensor(std::int64_t bytes) { return {allocate(OptimizerEvent::Kind::alloc_tensor, bytes), 1}; }
  Tensors scratch(std::int64_t bytes) { return {allocate(OptimizerEvent::Kind::alloc_scratch, bytes), 1}; }

  /// A list with one tensor per parameter, in order.
  Tensors list(std::span<const OptimizerParameter> like) {
    const Tensors made{next_slot_, static_cast<std::int32_t>(like.size())};
    for (const OptimizerParameter& parameter : like) tensor(bytes_of(parameter));
    return made;
  }

  /// One tensor for each that has a Partial gradient, in order, so many times, while an operator reads them.
  void read_partial(std::span<const OptimizerParameter> parameters, int times) {
    Tensors sums{next_slot_, 0};
    for (int i = 0; i < times; ++i)
      for (const OptimizerParameter& parameter : parameters)
        if (parameter.partial_elements > 0) sums.count += tensor(bytes_of(parameter)).count;
    drop(sums);
  }

  /// name = value: what the name held before goes after the value was made.
  void bind(Tensors& name, Tensors value) {
    drop(name);
    name = value;
  }

  /// del name, name = something that outlives the step, or the end of a function. A list dies from its back.
  void drop(Tensors& name) {
    for (std::int32_t i = name.count; i-- > 0;) {
      program_.events.push_back({OptimizerEvent::Kind::free, name.first + i, 0});
    }
    name = {};
  }

  void count_kernels(std::int64_t launches) { program_.kernels += launches; }
  void count_flops(std::int64_t flops) { program_.elementwise_flops += flops; }

  OptimizerProgram take() { return std::move(program_); }

 private:
  std::int32_t allocate(OptimizerEvent::Kind kind, std::int64_t bytes) {
    program_.events.push_back({kind, next_slot_, bytes});
    return next_slot_++;
  }

  OptimizerProgram program_;
  std::int32_t next_slot_ = 0;
};

}  // namespace gpuplan
