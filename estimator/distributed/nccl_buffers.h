// The GPU memory of one communicator of NCCL, by the rules of its own source (2.14 to 2.30).
#pragma once

#include <cstdint>

#include "estimator/device/gpu.h"
#include "estimator/distributed/nccl_release.h"

namespace gpuplan {

/// The ranks of a communicator and what they do.
struct NcclGroup {
  std::int64_t ranks = 1;
  std::int64_t local_ranks = 1;  // of them in a node
  std::int64_t stride = 1;       // GPUs from one to the next
  std::int64_t peers = 0;        // that the rank sends to and receives from by themselves, and in all-to-alls
  bool collectives = true;       // all-reduces, gathers, reduce-scatters

  // GPUs from the first of a node to its last, between which they need a link.
  std::int64_t span() const { return ((local_ranks > 1 ? local_ranks : ranks) - 1) * stride + 1; }
};

/// Bytes: `planned` is what NCCL's defaults come to; `least` and `most` are bounds where it depends on what is not
/// known here: the place of the rank in NCCL's trees, whether the switch adds up (NVLS needs NVSwitch and its fabric
/// manager), and whether peers reach each other directly.
struct NcclBuffers {
  std::int64_t least = 0, planned = 0, most = 0;
};

/// - A channel of a ring has a connection to each neighbour: buffers of 4 MiB (Simple), 512 KiB (LL) and 4.7 MiB
///   (LL128), those of a receiver and those of a sender apart, each rounded up to 2 MiB (init.cc, computeBuffSizes;
///   transport/p2p.cc, p2pSendSetup and p2pRecvSetup; on A100s the sender has the Simple one). So 12 MiB a channel.
/// - Trees connect backwards, too: another 12 MiB a channel and rank in between, less at the ends. With the
///   communicator before 2.22, and after it when a tree is chosen, which NCCL's own model does between nodes.
/// - Before 2.22 every communicator has 16 chunks a channel for sends over the network (transport/net.cc,
///   NCCL_SHARED_STEPS): of 512 KiB where all GPUs have NVLink, of 128 KiB else.
/// - NVLS, from 2.18 on Hopper and later, of more than two ranks: two buffers a channel and GPU of the node
///   (transport/nvls.cc). With the communicator before 2.22, and after it when it is chosen.
/// - Sends and all-to-alls connect each peer by channels of their own, as many as two a link (graph/paths.cc,
///   ncclTopoComputeP2pChannels), when they first need them.
/// - What goes through the host's memory has its buffers there (transport/shm.cc).
NcclBuffers nccl_buffers(const NcclGroup& group, const Gpu& gpu, const NcclRelease& release);

}  // namespace gpuplan
