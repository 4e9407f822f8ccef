// The verdict: whether a step fits the device that it is planned for.
#pragma once

#include <cstdint>

#include "estimator/plan/report.h"

namespace gpuplan {

/// Whether device_bytes fits the named device; fits also when no memory size is known (known: false). A step that runs
/// only by giving its cache back does not fit: the device is synchronized for that in every step, the time of which is
/// not modelled, and the step runs out of memory where anything else takes some.
struct Verdict {
  bool known = false;
  bool fits = true;               // there is as much memory as it needs
  bool runs = true;               // it fits, or PyTorch gives its cache back to the device for it
  std::int64_t usable_bytes = 0;  // by the step: without the margin
};
Verdict verdict(const Report& report);

}  // namespace gpuplan
