// A snapshot's requests under other settings or in less memory, as the snapshot that PyTorch would have written then.
#pragma once

#include <cstddef>

#include "estimator/allocator/allocator.h"
#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// Of one device, which is the only one of the result. It ends where memory runs out. Throws what trace_of() does.
Snapshot replayed_snapshot(const Snapshot& of, std::size_t device, const AllocatorSettings& settings,
                           std::string_view alloc_conf);

}  // namespace gpuplan
