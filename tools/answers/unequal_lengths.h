// gpuplan plan MODEL --seq-lengths: a loop whose batches are of unequal length, step by step.
#pragma once

#include "estimator/report/lengths_report.h"
#include "tools/options/lengths_options.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"

namespace gpuplan {

/// The loop, and what other orders and paddings of the same samples take. Throws Error (usage) for flags that are not
/// planned with it.
LengthsReport unequal_lengths(const RunOptions& run, const LengthsOptions& lengths, bool shows_progress = false);

/// Prints the loop's peak, the steps in which reserved memory grows, and what other orders and paddings of the same
/// samples take, as a table, JSON or CSV. Returns the exit code: 1 where it does not fit the device.
int print_unequal_lengths(const RunOptions& run, const LengthsOptions& lengths, const OutputOptions& output);

}  // namespace gpuplan
