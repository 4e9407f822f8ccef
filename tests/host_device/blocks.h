// Tensors with memory of their own, and kernels on them, for tests of one operation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/host_device/elements.h"
#include "tests/host_device/host_device.h"

namespace gpuplan::host {

/// A row-major tensor. It must stay where it is while a KernelTensor of it is used; who has one may write it.
class Block {
 public:
  explicit Block(std::vector<std::int64_t> sizes, DType dtype = DType::fp64, std::vector<double> values = {});

  KernelTensor tensor() const {
    KernelTensor t = shape_;
    t.data = bytes_.data();
    return t;
  }
  operator KernelTensor() const { return tensor(); }  // NOLINT(google-explicit-constructor): operands in braces
  std::vector<double> values() const { return read(tensor()).at; }
  std::int64_t count() const { return elements(shape_); }
  double get(std::int64_t i) const { return load(tensor(), i); }
  void set(std::int64_t i, double value) { store(tensor(), i, value); }

 private:
  mutable std::vector<std::byte> bytes_;
  KernelTensor shape_;  // without data
};

/// Numbers within [-1, 1] or so, the same in every run and no two alike.
Block random_block(std::vector<std::int64_t> sizes, int seed, DType dtype = DType::fp64);

/// What an operation is given; `name` without "aten::".
struct Operands {
  std::vector<KernelTensor> reads, writes;
  std::vector<double> numbers = {};  // its attributes, as by_name() has them
  Primitive what = Marker{};
  std::vector<KernelTensor> extra = {};
  std::uint64_t seed = 0;
};
/// Throws what the device throws.
void run(const std::string& name, const Operands& operands);

}  // namespace gpuplan::host
