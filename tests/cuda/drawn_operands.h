// Operands for an operation that is run once: numbers from -2 to 2 of the operand's type, positive ones where the
// operation divides by them or takes their root, indices within what they index. Drawn from `number` alone.
#pragma once

#include <cstdint>

#include "validate/executor/device.h"

namespace gpuplan::comparison {

/// Fills what the kernel reads, in the device's memory. What depends on an operation before it stays as it is:
/// max pooling's indices in its gradient, what attention has saved.
void draw_operands(Device& device, const Kernel& kernel, std::uint64_t number);

/// One tensor of numbers from `least` to below `most`.
void draw(Device& device, const KernelTensor& t, std::uint64_t number, double least = -2, double most = 2);
/// Integers from `least` to below `end`.
void draw_integers(Device& device, const KernelTensor& t, std::uint64_t number, std::int64_t least, std::int64_t end);

}  // namespace gpuplan::comparison
