// What the script of an HTML report draws: allocations of one GPU, with their stacks, in compact rows.
#pragma once

#include <cstddef>
#include <string>

#include "estimator/snapshot/snapshot.h"

namespace gpuplan {

/// Of a plan the step that is reported; of a run all of it, or the step of the peak.
enum class PagePart : unsigned char { all, first_step, last_step, peak_step };

/// Or what surrounds the peak, where there is more than a browser draws.
/// Rows: a tensor is [made, freed, bytes, stack, address], a segment [made, freed, bytes, address], a mark [name,
/// begin, end]; a label is the line
/// that a stack stands for; events count from `first`, -1 is before or after all of them.
std::string memory_page_json(const std::string& name, const Snapshot& snapshot, std::size_t device, PagePart part);

}  // namespace gpuplan
