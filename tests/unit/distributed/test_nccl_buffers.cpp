// NCCL's channels and buffers, against what was published of them.
#include <doctest/doctest.h>

#include <cstdint>

#include "estimator/distributed/nccl_fabric.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/market/instance.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

NcclBuffers buffers_of(const char* gpu, std::int64_t ranks, PyTorchVersion pytorch, std::int64_t peers = 0) {
  const NcclGroup group{.ranks = ranks, .local_ranks = ranks, .peers = peers, .collectives = peers == 0};
  return nccl_buffers(group, *gpu_called(gpu), nccl_of(pytorch));
}

TEST_CASE("NCCL's channels are those of published logs") {
  const auto channels = [](const char* gpu, std::int64_t ranks) {
    return nccl_fabric(*gpu_called(gpu), ranks)->channels;
  };
  CHECK_EQ(channels("a100-80gb", 8), 24);  // nccl-tests issue 100: "Channel 23/24"
  CHECK_EQ(channels("h100", 8), 24);       // vllm issue 9699: nvlsPerRankSize is 24 times 12 MiB
  CHECK_EQ(channels("rtx4090", 3), 4);     // tinygrad/open-gpu-kernel-modules issue 17: channels 00 to 03 of PCIe 4
  CHECK_EQ(nccl_channels(160, 90), 16);    // nccl issue 892: "16 coll channels" of H800s, whose eight links count 20
  CHECK_EQ(nccl_channels(12, 80), 2);      // ultralytics issue 12905: "2 coll channels" over PCIe 3
}

TEST_CASE("NCCL's buffers are those of published readings") {
  // nccl issue 964: 544 MB of each pair of four A100s, 688 of three and four, of rank 0, read as MiB.
  CHECK_EQ(buffers_of("a100-80gb", 2, 206).planned, 544 * kMiB);
  CHECK_EQ(buffers_of("a100-80gb", 4, 206).planned, 688 * kMiB);
  CHECK_EQ(buffers_of("a100-80gb", 3, 206).planned, 688 * kMiB);
  // vllm issue 9699: nvlsTotalSize 2415919104 on eight H200s, with NCCL 2.20: what the switch adds to the others'.
  const NcclBuffers of_switch = buffers_of("h200", 8, 204);
  const std::int64_t ring_and_tree = 24 * 12 * kMiB + 24 * 10 * kMiB + 256 * kMiB;
  CHECK_EQ(of_switch.planned - ring_and_tree, 2415919104);
  // nccl issue 1685: 1.06 GB before the first all-to-all of eight H100s and 4.34 GB after it, of which PyTorch has
  // none.
  const double added = static_cast<double>(buffers_of("h100", 8, 207, 7).planned);
  CHECK_EQ(added, 7.0 * 32 * 12 * kMiB);
  CHECK(added / 3.28e9 == doctest::Approx(0.86).epsilon(0.01));  // 14 % less than was read
}

TEST_CASE("NCCL's buffers have bounds, and are few where peers are reached through PCIe") {
  for (const PyTorchVersion pytorch : {200, 201, 204, 206, 207, 215})
    for (const char* gpu : {"v100-sxm2-32gb", "a100-80gb", "a100-pcie-80gb", "h100", "b200", "l4", "rtx4090"})
      for (const std::int64_t ranks : {2, 8, 16}) {
        CAPTURE(gpu);
        CAPTURE(pytorch);
        const NcclBuffers b =
            nccl_buffers({.ranks = ranks, .local_ranks = ranks < 8 ? ranks : 8}, *gpu_called(gpu), nccl_of(pytorch));
        CHECK(b.least <= b.planned);
        CHECK(b.planned <= b.most);
      }
  CHECK_EQ(buffers_of("rtx4090", 8, 215).planned, 4 * 12 * kMiB);
  CHECK_EQ(buffers_of("rtx4090", 8, 215).least, 0);
  CHECK_EQ(buffers_of("a100-pcie-80gb", 2, 215).planned, buffers_of("a100-80gb", 2, 215).planned);  // a bridge
  CHECK(buffers_of("a100-pcie-80gb", 4, 215).planned < 100 * kMiB);
  Gpu unknown = *gpu_called("l4");
  unknown.datasheet->pcie_gen.reset();
  CHECK_EQ(nccl_buffers({.ranks = 2, .local_ranks = 2}, unknown, nccl_of(215)).planned, 2 * 12 * kMiB);
  CHECK_EQ(nccl_of(215).name, "2.30.7");
  CHECK_EQ(nccl_of(200).name, "2.14.3");
  CHECK_EQ(nccl_of(210).name, "2.27.5");
}

}  // namespace
}  // namespace gpuplan
