#include "estimator/device/arithmetic.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "estimator/base/error.h"

namespace gpuplan {
namespace {

constexpr int kTypes = 8;
constexpr std::array<std::string_view, kTypes> kNames = {"fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4"};

using Types = std::uint32_t;  // a bit each
template <class... T>
constexpr Types types(T... list) {
  return (Types{0} | ... | (Types{1} << static_cast<int>(list)));
}

struct Architecture {
  int capability = 0;  // 10 * major + minor, the first that has it
  Types tensor = 0;    // tensor cores
  Types cores = 0;     // CUDA cores; at 1/64 of fp32's rate or less is as good as not there
};

using enum Arithmetic;
constexpr Types kPlain = types(fp64, fp32);
constexpr std::array<Architecture, 13> kArchitectures = {{
    {0, 0, kPlain},
    {60, 0, kPlain | types(fp16)},
    {61, 0, kPlain | types(int8)},  // dp4a; fp16 at 1/64
    {62, 0, kPlain | types(fp16)},
    {70, types(fp16), kPlain | types(fp16, int8)},
    {75, types(fp16, int8, int4), kPlain | types(fp16, int8)},
    {80, types(fp64, tf32, bf16, fp16, int8, int4), kPlain | types(fp16, bf16, int8)},
    {86, types(tf32, bf16, fp16, int8, int4), kPlain | types(fp16, bf16, int8)},
    {89, types(tf32, bf16, fp16, fp8, int8, int4), kPlain | types(fp16, bf16, int8)},
    {90, types(fp64, tf32, bf16, fp16, fp8, int8), kPlain | types(fp16, bf16, int8)},
    {100, types(fp64, tf32, bf16, fp16, fp8, int8), kPlain | types(fp16, bf16, int8)},
    {103, types(tf32, bf16, fp16, fp8), kPlain | types(fp16, bf16, int8)},
    {120, types(tf32, bf16, fp16, fp8, int8), kPlain | types(fp16, bf16, int8)},
}};

constexpr int capability(const Gpu& gpu) { return 10 * gpu.capability_major + gpu.capability_minor; }

const Architecture& architecture_of(const Gpu& gpu) {
  const auto newer =
      std::ranges::find_if(kArchitectures, [&](const Architecture& a) { return a.capability > capability(gpu); });
  return *std::prev(newer);
}

constexpr bool has(Types set, Arithmetic type) { return (set & types(type)) != 0; }

// "fp16, int8 and int4"
std::string listed(Types set) {
  std::string out;
  for (int t = 0; t < kTypes; ++t) {
    if (!has(set, static_cast<Arithmetic>(t))) continue;
    set &= ~types(static_cast<Arithmetic>(t));
    out += (out.empty() ? "" : set == 0 ? " and " : ", ") + std::string(kNames[static_cast<std::size_t>(t)]);
  }
  return out;
}

bool uses_bf16(const RunConfig& run) { return run.precision == DType::bf16 || run.autocast == DType::bf16; }
bool uses_fp16(const RunConfig& run) { return run.precision == DType::fp16 || run.autocast == DType::fp16; }

}  // namespace

bool on_tensor_cores(const Gpu& gpu, Arithmetic type) { return has(architecture_of(gpu).tensor, type); }

bool computes(const Gpu& gpu, Arithmetic type) {
  const Architecture& a = architecture_of(gpu);
  return has(a.tensor | a.cores, type);
}

std::string arithmetic_of(const Gpu& gpu) {
  const Architecture& a = architecture_of(gpu);
  if (a.tensor == 0) return listed(a.cores) + ", without tensor cores";
  return listed(a.tensor) + " on tensor cores, " + listed(a.cores & ~a.tensor) + " on CUDA cores";
}

void refuse_arithmetic(const RunConfig& run, const Gpu& gpu) {
  const auto refused = [&](const std::string& why) {
    return Error(gpu.title + " (compute capability " + std::to_string(gpu.capability_major) + "." +
                 std::to_string(gpu.capability_minor) + ") " + why)
        .help("it computes " + arithmetic_of(gpu));
  };
  if (run.weights == WeightFormat::fp8 && !computes(gpu, fp8))
    throw refused("has no native fp8: PyTorch multiplies in fp8 from compute capability 8.9 on");
  constexpr PyTorchVersion kCountsEmulation = 203;  // pytorch/pytorch#115924
  if (run.autocast == DType::bf16 && !computes(gpu, bf16) && run.pytorch < kCountsEmulation)
    throw refused("has no native bf16: torch.autocast refuses bf16 on it before PyTorch 2.3");
}

std::vector<std::string> emulated_arithmetic(const RunConfig& run, const Gpu& gpu) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& what) {
    warnings.push_back(gpu.title + " " + what + "; it computes " + arithmetic_of(gpu));
  };
  if (uses_bf16(run) && !computes(gpu, bf16))
    warn("has no native bf16: PyTorch emulates bf16 in fp32, without tensor cores");
  if (uses_fp16(run) && !computes(gpu, fp16)) warn("has no fast native fp16: PyTorch computes fp16 in fp32");
  if (run.tf32 && !on_tensor_cores(gpu, tf32)) warn("has no native tf32: PyTorch computes the matrix products in fp32");
  if (run.weights == WeightFormat::int8 && !computes(gpu, int8)) warn("has no native int8");
  return warnings;
}

}  // namespace gpuplan
