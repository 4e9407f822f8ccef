// gpuplan fit --gpus any --may mesh: which GPUs to rent, how many, and how they share a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/market/instance.h"
#include "estimator/search/offers.h"
#include "estimator/search/sweep_row.h"
#include "tools/answers/offered_places.h"
#include "tools/options/swept_flags.h"

namespace gpuplan {

/// A way to share a step over what one offer has. A plan of these flags has its figures.
struct OfferedMesh {
  std::size_t place = 0;  // the number of the offer among all
  std::string gpu;
  std::int64_t gpus = 1;
  std::optional<Offer> offer;  // nothing: no instance has them
  std::string flags;           // "--gpu h100 --gpus 16 --network 3200 --zero fsdp --micro-batches 4"
  SweepFigures figures;
  std::optional<double> usd_per_step() const;
};

/// An offer that no row is of.
struct UnlistedOffer {
  std::size_t place = 0;
  std::string gpu;
  std::int64_t gpus = 1;
  std::string why;  // one of the following, or what is refused
};
constexpr const char* kNoWayFits = "no way fits";
constexpr const char* kNoStepTime = "its step time is not known";
constexpr const char* kOthersAreBetter = "others are better in memory, time and money";

struct OfferedMeshes {
  std::vector<OfferedMesh> rows;  // that fit and have a time, none of them worse than another in all of memory, time
                                  // and money of a step: the fastest first
  std::int64_t offers = 0, fitting = 0, planned = 0;  // asked, with a way that fits, ways planned
  std::vector<std::string> untimed;                   // GPUs that fit, and as many of which have no known time
  std::vector<UnlistedOffer> unlisted;                // of those asked
};

/// In memory, time and money of a step, none of them worse and one better; what has no price is judged by the others.
bool beats(const OfferedMesh& a, const OfferedMesh& b);

/// Each kind of GPU, as many as instances have, and twice as many of the largest, up to kMostJoined, where their
/// network is known; or those that the question names. Data parallelism is planned of each; --tp and --pp are where
/// none of it fits, or sends for more than a tenth of the fastest step, and are doubled while that is faster. Throws
/// Error (usage) without a batch. `shard`: of a part of the offers, whose rows are compared with each other only.
OfferedMeshes offered_meshes(const OfferedQuestion& question, std::span<const Instance> instances,
                             const std::function<void(std::size_t done, std::size_t all)>& told = {}, Shard shard = {});

}  // namespace gpuplan
