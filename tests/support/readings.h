// What an allocator holds, beside what was recorded.
#pragma once

#include <doctest/doctest.h>

#include "estimator/schedule/phase.h"

namespace gpuplan {

inline void check_equal(const Reading& got, const Reading& expected) {
  CHECK_EQ(got.requested_bytes, expected.requested_bytes);
  CHECK_EQ(got.allocated_bytes, expected.allocated_bytes);
  CHECK_EQ(got.reserved_bytes, expected.reserved_bytes);
}

}  // namespace gpuplan
