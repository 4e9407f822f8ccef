// gpuplan plan MODEL --tp 2 --pp 4: what each stage of a GPT takes.
#pragma once

#include "estimator/report/stages_text.h"
#include "tools/answers/planning.h"
#include "tools/options/output_options.h"
#include "tools/options/run_options.h"
#include "tools/options/several_gpus.h"

namespace gpuplan {

/// The stages, what they send and how long a step takes. Throws Error (usage) for flags that Megatron-LM's formulas do
/// not know.
StagesReport stages_report(const Planning& planning, const Strategy& strategy, const RunOptions& run,
                           const SeveralGpusOptions& several);
/// Prints the stages, what they send and how long a step takes, as a table or as JSON. Returns the exit code: 1 where
/// one does not fit the device. Throws Error (usage) for flags that Megatron-LM's formulas do not know.
int print_stages(const Planning& planning, const Strategy& strategy, const RunOptions& run,
                 const SeveralGpusOptions& several, const OutputOptions& output);

}  // namespace gpuplan
