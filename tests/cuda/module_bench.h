// What the programs of the module's operations are written with: tensors in the device's memory, and operations on
// them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "validate/executor/device.h"

namespace gpuplan::module_test {

struct Block {
  std::uint64_t address;
  std::int64_t bytes;
};

class Bench {
 public:
  explicit Bench(Device& device) : device_(device) {}
  ~Bench() {
    for (const Block& b : blocks_) device_.release(b.address, b.bytes);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  KernelTensor tensor(DType dtype, std::vector<std::int64_t> sizes, bool channels_last = false) {
    KernelTensor t;
    t.dtype = dtype;
    t.rank = static_cast<std::int32_t>(sizes.size());
    std::int64_t step = 1;
    std::vector<int> order;
    for (int i = t.rank - 1; i >= 0; --i) order.push_back(i);
    if (channels_last) order = {1, 3, 2, 0};
    for (const int i : order) {
      t.sizes[i] = sizes[static_cast<std::size_t>(i)];
      t.strides[i] = step;
      step *= t.sizes[i];
    }
    t.data = memory(step * size_of(dtype));
    return t;
  }
  void* memory(std::int64_t bytes) {
    bytes = std::max<std::int64_t>(bytes, 1);  // of nothing there is no address
    const std::uint64_t address = device_.allocate(bytes);
    if (address == 0) throw Error("no memory");
    blocks_.push_back({address, bytes});
    void* data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
    device_.fill_bytes(data, bytes, 0);
    return data;
  }

 private:
  Device& device_;
  std::vector<Block> blocks_;
};

struct Case {
  std::string name;
  std::vector<KernelTensor> reads, extra, writes;
  std::vector<double> numbers = {};
  Primitive what = Elementwise{};
  std::vector<KernelScratch> scratch = {};
};

/// Runs it and waits for it. What fails is printed and counted.
void run(Device& device, const Case& c);
/// Counts one more that ran, and one that failed.
void ran();
void failed(const std::string& what);
/// Of all so far.
int failures();
int runs();

/// Its last two dimensions exchanged.
inline KernelTensor transposed(KernelTensor t) {
  std::swap(t.sizes[t.rank - 1], t.sizes[t.rank - 2]);
  std::swap(t.strides[t.rank - 1], t.strides[t.rank - 2]);
  return t;
}

// Every operation once, by the file that has them.
void pointwise(Device& device, DType type);
void copies(Device& device, DType type);
void losses(Device& device, DType type);
void integers(Device& device);
void reductions(Device& device, DType type);
void products(Device& device, DType type);
void lookups(Device& device, DType type);
void experts(Device& device, DType type);
void attention(Device& device, DType type);
void recurrent(Device& device, DType type);
void convolutions(Device& device, DType type, bool last);
void normalizations(Device& device, DType type);
void group_normalizations(Device& device, DType type);
void pooling(Device& device, DType type, bool last);

}  // namespace gpuplan::module_test
