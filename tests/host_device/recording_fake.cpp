#include "tests/host_device/recording_fake.h"

#include <algorithm>
#include <cstring>

#include "estimator/base/error.h"
#include "tests/host_device/elements.h"

namespace gpuplan {
namespace {

constexpr unsigned char kPoison = 0xFF;

std::uint64_t number(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

void RecordingFake::check_inside(const void* address, std::int64_t bytes, const std::string& what) {
  auto block = blocks_.upper_bound(number(address));
  if (block != blocks_.begin()) --block;
  const bool inside =
      block != blocks_.end() && number(address) >= block->first &&
      number(address) + static_cast<std::uint64_t>(bytes) <= block->first + static_cast<std::uint64_t>(block->second);
  if (!inside) wrong.push_back(what + " lies in no block");
}

void RecordingFake::check(const KernelTensor& t, const std::string& what) {
  if (t.data == nullptr) return;
  std::int64_t last = 0;
  for (int i = 0; i < t.rank; ++i) last += (t.sizes[i] - 1) * t.strides[i];
  if (host::elements(t) > 0) check_inside(t.data, (last + 1) * size_of(t.dtype), what);
}

void RecordingFake::run(const Kernel& kernel) {
  const std::string what = std::string(name_of(kernel.op)) + " of " + std::string(kernel.layer);
  if (kernels_++ == fails_at) throw Error("refused");
  events.push_back("run " + what);
  for (const auto operands : {kernel.reads, kernel.extra, kernel.writes})
    for (const KernelTensor& t : operands) check(t, "an operand of " + what);
  for (const KernelScratch& s : kernel.scratch)
    if (s.data != nullptr) check_inside(s.data, s.bytes, "scratch of " + what);
}

void RecordingFake::update(const OptimizerConfig&, std::int64_t step, std::span<const ParameterUpdate> parameters) {
  events.push_back("update " + std::to_string(step));
  for (const ParameterUpdate& p : parameters) {
    check(p.parameter, "a parameter");
    check(p.gradient, "a gradient");
    for (const KernelTensor& s : p.states) check(s, "a state");
  }
}

void RecordingFake::clip_gradients(std::span<const KernelTensor> gradients) {
  events.emplace_back("clip");
  for (const KernelTensor& g : gradients) check(g, "a gradient");
}

void RecordingFake::unscale_gradients(std::span<const KernelTensor> gradients, const ScalerValues& values) {
  events.emplace_back("unscale");
  for (const KernelTensor& g : gradients) check(g, "a gradient");
  check_inside(values.scale, 4, "the scale");
  check_inside(values.found_inf, 4, "found_inf");
}

void RecordingFake::update_scale(const ScalerValues& values) {
  events.emplace_back("scale");
  check_inside(values.scale, 4, "the scale");
  check_inside(values.growth_tracker, 4, "the growth tracker");
  check_inside(values.found_inf, 4, "found_inf");
}

void RecordingFake::fill_bytes(void* address, std::int64_t bytes, unsigned char value) {
  if (value != kPoison) return check_inside(address, bytes, "what is filled");
  ++poisoned;
  const auto [block, came] = blocks_.try_emplace(number(address), bytes);
  if (came) return;
  if (block->second != bytes) wrong.emplace_back("a block goes with another size than it came with");
  blocks_.erase(block);
}

void RecordingFake::copy_to_device(void* to, const void*, std::int64_t bytes) {
  check_inside(to, bytes, "what is initialised");
}

void RecordingFake::copy_to_host(void* to, const void* from, std::int64_t bytes) {
  check_inside(from, bytes, "what is read back");
  std::memset(to, 0, static_cast<std::size_t>(bytes));
}

}  // namespace gpuplan
