// What NCCL finds between GPUs, by the constants of its own source: bandwidths, and how many channels carry them.
#pragma once

#include <cstdint>
#include <optional>

#include "estimator/device/gpu.h"

namespace gpuplan {

/// Between the GPUs of a node, in one direction. Bandwidths are what NCCL counts with, which is what its rings reach:
/// src/graph/topo.h has each generation's NVLink (18 GB/s of a link of P100's, 20 of V100's and A100's 25, 20.6 of
/// H100's, 40.1 of B200's 50, 12 of 14 of GeForce's and workstations' of Ampere, 20 of 25 of Turing's) and PCIe (12
/// GB/s of 16 lanes of the third generation, twice as much of each later one).
struct NcclFabric {
  bool nvlink = false;
  double bytes_per_second = 0;  // of all links of a GPU together
  std::int64_t channels = 0;    // of a ring
};
/// Between `ranks` neighbours of them: over NVLink where all of them have it, which bridges of PCIe cards give to two.
/// Absent where neither link of the GPU is known.
std::optional<NcclFabric> nccl_fabric(const Gpu& gpu, std::int64_t ranks);
/// In one direction over PCIe. Absent where its generation is not known.
std::optional<double> pcie_bytes_per_second(const Gpu& gpu);
/// GPUs on modules (SXM) have it among all of a node; of PCIe cards a bridge joins two. Which are PCIe cards is known
/// of those of capability 7.5, 8.6 and 8.9, and else by the name, which is that of the GPU's file: a30, or with -pcie
/// or -nvl in it. Where no link is known, as of the GPU that is taken where none is named, an A100's is taken.
bool has_nvlink(const Gpu& gpu, std::int64_t ranks);

/// Channels of rings over links of so many GB/s together, within a node: of the speeds that the search tries, the
/// highest that uses most of them; wide channels are halved, and all of them doubled (src/graph/search.cc,
/// ncclTopoCompute and ncclTopoDupChannels; src/graph/connect.cc, ncclTopoPostset; 2.18 to 2.30).
std::int64_t nccl_channels(double gb_per_second, int capability);  // capability: 80, 90

}  // namespace gpuplan
