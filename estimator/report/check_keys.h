// The keys of figures in JSON, by Figure; the unit is part of the key.
#pragma once

#include <array>

#include "estimator/budget/figure.h"

namespace gpuplan {

constexpr std::array<const char*, kFigures> kFigureKeys = {"peak_bytes",
                                                           "reserved_bytes",
                                                           "device_bytes",
                                                           "parameters",
                                                           "step_flops",
                                                           "step_nanoseconds",
                                                           "micro_usd_per_million_samples",
                                                           "saved_bytes"};

}  // namespace gpuplan
