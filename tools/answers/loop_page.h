// A loop whose steps differ, from a run's options to its page.
#pragma once

#include "estimator/report/lengths_report.h"
#include "tools/answers/batch_steps.h"
#include "tools/options/output_options.h"

namespace gpuplan {

/// The run's part of a report without steps. Throws Error for arithmetic that the GPU does not have.
LengthsReport begin_loop(const Planning& planning);
/// Where its steps have their peak, whether they run in the GPU's memory, and the model's warnings.
void finish_loop(BatchSteps& made, const Planning& planning, const RunOptions& options, LengthsReport& report);

/// Throws Error (usage) for a format that a loop is not printed in.
void refuse_loop_formats(const OutputOptions& output);
/// Returns the exit code: 1 where the loop does not fit the device.
int print_loop(const LengthsReport& report, bool strict, const OutputOptions& output);

}  // namespace gpuplan
