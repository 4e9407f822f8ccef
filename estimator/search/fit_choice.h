// Which row of a fit to take.
#pragma once

#include "estimator/search/fit.h"

namespace gpuplan {

/// Fills Fit::chosen, Fit::why and FitRow::pareto: what fits, may be rented as the question says, and costs least.
void choose(Fit& fit, const FitQuestion& question);

}  // namespace gpuplan
