// GPUs of one kind do not run alike: at its power limit each finds a clock of its own, and who shares a step waits for
// the slowest. It is taken to be every one of the GPUs that are timed, also where stages take turns: the most that it
// costs.
#pragma once

#include <cstdint>

namespace gpuplan {

/// Of so many draws of a normal distribution the greatest, on average, in standard deviations; 0 of one.
double greatest_of(std::int64_t draws);

/// How many times as long as the average GPU the slowest of `gpus` computes, on average. `spread`: the standard
/// deviation of one kind of GPU, as a share (TimeModel::clock_spread).
double slowest_of(std::int64_t gpus, double spread);

}  // namespace gpuplan
