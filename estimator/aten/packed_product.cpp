// Which products read a 4-bit weight as it is packed: the tiers of bitsandbytes 0.50.2 by GPU, rows and sizes
// (backends/cuda/ops.py, _gemm_4bit_use_custom_cuda), measured there.
#include "estimator/aten/stored_linear.h"
#include "estimator/base/integers.h"
#include "estimator/graph/weight_format.h"

namespace gpuplan::aten {
namespace {

constexpr std::int64_t kMostRows = 1536;
constexpr std::int64_t kSmallWeight = std::int64_t{4} << 20;  // elements

struct ProductSizes {
  std::int64_t m, n, k;
  std::int64_t blocks, sms;  // blocks of 64 columns, and what runs at once
  int compute;               // compute capability, 90 for 9.0
  bool has_hbm() const { return compute == 80 || compute / 10 == 9; }
  /// Whether the blocks fill at least so many waves.
  bool waves(std::int64_t number, std::int64_t of = 1) const { return blocks * of >= sms * number; }
};

bool short_rows(const ProductSizes& s) {  // k < n / 2
  if (s.has_hbm()) {
    const bool low = s.blocks * 3 < s.sms;
    return s.m <= (s.compute == 80 ? (low ? 1536 : 512) : (low ? 512 : 320));
  }
  if (s.compute == 75) return s.m <= (s.waves(3) || s.k < 704 ? 320 : s.k >= 1024 ? 64 : 96);
  if (s.waves(1)) return s.m <= 320;
  return s.m <= (s.blocks * s.k > s.sms * 320 ? 192 : 320);
}

bool small_weight(const ProductSizes& s) {
  if (s.k * 2 < s.n) return short_rows(s);
  const bool quarter_wave = s.blocks * 4 <= s.sms;
  if (s.compute == 80 && quarter_wave) return s.m <= (s.k < s.n ? 384 : s.blocks * 8 <= s.sms ? 32 : 128);
  if (s.compute == 75 && s.blocks < s.sms && s.m > 8) return s.m <= 64;
  if (quarter_wave) return s.m <= (s.k < s.n || s.has_hbm() ? 32 : 23);
  return s.blocks * 2 <= s.sms && s.m <= 16;
}

bool few_rows(const ProductSizes& s) {  // 5 to 7
  const bool hopper = s.compute / 10 == 9;
  if (!s.has_hbm() || s.m < 6 || s.blocks < (hopper ? 36 : 48)) return true;
  const bool below_75 = s.blocks * 4 < s.sms * 3, below_60 = s.blocks * 5 < s.sms * 3;
  if (s.k > s.n && below_75) return false;
  return s.k != s.n || !(hopper ? below_75 && !below_60 : below_60);
}

bool on_turing(const ProductSizes& s) {
  if (s.waves(3)) return s.m <= (s.k < s.n ? 128 : 64);
  return s.m <= (s.blocks >= s.sms / 2 ? 64 : 32);
}

bool on_a100(const ProductSizes& s) {
  if (s.waves(3)) return s.m <= 128;
  if (s.waves(1)) return s.m <= (s.k < s.n ? 64 : 32);
  if (s.k >= s.n * 3 && s.blocks * 4 > s.sms) return false;
  if (s.k == s.n && s.blocks >= 48 && s.blocks * 5 < s.sms * 3) return false;
  if (s.blocks * 2 < s.sms) {
    if (s.k <= s.n) return s.m <= 128;
    if (s.blocks * 3 >= s.sms) return false;
  }
  return s.m <= (s.blocks >= s.sms / 2 && s.k < s.n ? 128 : 16);
}

bool on_ga10x(const ProductSizes& s) { return s.m <= (s.waves(1) ? 128 : s.blocks >= s.sms / 2 ? 64 : 16); }

bool on_hopper(const ProductSizes& s) {
  if (s.waves(3)) return s.m <= 64;
  if (s.waves(2)) return s.m <= 48;
  if (s.waves(1)) return s.m <= 32;
  if (s.blocks < s.sms / 2 || (s.k >= s.n && s.blocks * 4 < s.sms * 3)) return false;
  return s.m <= 16;
}

bool on_b200(const ProductSizes& s) {
  if (s.waves(3)) return s.m <= 32;
  return s.waves(1) && s.k < s.n && s.m <= 8;
}

bool on_rtx_blackwell(const ProductSizes& s) {
  const bool tall = s.k > s.n * 2;
  if (s.waves(3)) return s.m <= 256;
  if (s.waves(2)) return s.m <= 128;
  if (s.blocks * 5 >= s.sms * 4) return s.m <= (s.k >= s.n ? 96 : 64);
  if (s.blocks >= s.sms / 2) return s.m <= (s.k * 2 >= s.n && s.blocks >= 128 ? 64 : 8);
  return s.m <= (tall && s.blocks > 64 ? 16 : 8);
}

bool on_ada(const ProductSizes& s) {  // and where nothing was measured
  const bool tall = s.k > s.n * 2;
  if (s.compute == 121 && s.waves(1)) return s.m <= 256;
  if (s.waves(3)) return s.m <= 256;
  if (s.waves(2)) return s.m <= 128;
  if (s.blocks * 5 >= s.sms * 4) {
    if (tall || s.blocks >= 200) return s.m <= 128;
    return s.m <= (s.k < s.n ? 64 : s.sms >= 60 ? 128 : 32);
  }
  if (s.blocks >= s.sms / 2) return s.m <= (tall ? 64 : s.blocks >= 64 ? 8 : 32);
  if (s.k > s.n && s.blocks <= 48) return s.m <= (s.k >= s.n * 3 ? 12 : 10);
  return s.m <= (tall || s.blocks < 48 ? 16 : 8);
}

bool many_rows(const ProductSizes& s) {
  switch (s.compute) {
    case 75: return on_turing(s);
    case 80: return on_a100(s);
    case 86: return on_ga10x(s);
    case 120: return on_rtx_blackwell(s);
    default: return s.compute / 10 == 9 ? on_hopper(s) : on_ada(s);
  }
}

}  // namespace

bool multiplies_packed(const Gpu& gpu, DType type, std::int64_t m, std::int64_t n, std::int64_t k) {
  const ProductSizes s{m, n, k, ceil_div(n, 64), gpu.sm_count, gpu.capability_major * 10 + gpu.capability_minor};
  if (m > kMostRows || k % kBlockOf4bit != 0) return false;
  if (m <= 4) return true;
  const bool half_on_turing = s.compute == 75 && type == DType::fp16;
  if (type == DType::fp32 || s.compute < 75 || (s.compute == 75 && !half_on_turing)) return m < 8;
  if (s.compute == 87 || s.compute / 10 == 11) return false;
  if (s.compute / 10 == 10) return on_b200(s);
  if (n * k < kSmallWeight) return small_weight(s);
  if (m > 512) return false;
  return m < 8 ? few_rows(s) : many_rows(s);
}

}  // namespace gpuplan::aten
