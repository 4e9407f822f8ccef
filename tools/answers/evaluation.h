// gpuplan plan MODEL --eval-batch N: steps of training with an evaluation in between.
#pragma once

#include "estimator/report/lengths_report.h"
#include "tools/options/evaluation_options.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"

namespace gpuplan {

/// Three steps of training, the evaluation, and two more. Throws Error (usage) for flags that are not planned with it.
LengthsReport with_evaluation(const RunOptions& run, const EvaluationOptions& evaluation);

/// Prints it as a table, JSON or CSV. Returns the exit code: 1 where it does not fit the device.
int print_with_evaluation(const RunOptions& run, const EvaluationOptions& evaluation, const OutputOptions& output);

}  // namespace gpuplan
