// What `gpuplan plan --seq-lengths` and `--eval-batch` print: a loop whose batches are of unequal length, or evaluated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/allocator/loop_replay.h"
#include "estimator/device/gpu.h"
#include "estimator/plan/report.h"
#include "estimator/report/text_style.h"
#include "estimator/search/batch_lengths.h"

namespace gpuplan {

/// The same samples in another loop.
struct OtherLoop {
  std::string what, flags;  // in words; what says it to gpuplan or to a data loader
  std::int64_t allocated_bytes = 0, reserved_bytes = 0;
  double padding = 0;  // share of the tokens
};

struct LengthsReport {
  std::string model, file;
  RunConfig run;           // its batch is that of a whole step
  std::optional<Gpu> gpu;  // nothing where none is named
  Margin margin;           // of its memory
  std::string source;      // of the lengths, where there are any
  std::vector<std::int64_t> lengths;
  std::vector<StepBatch> batches;  // a step
  std::int64_t usual_tokens = 0;   // of a batch that does not say how many; 0: its samples have none
  std::vector<StepReading> steps;
  double padding = 0;
  std::string peak_place;  // "backward of loss"
  std::int64_t context_bytes = 0;
  Confidence context_confidence = Confidence::assumed;
  std::optional<WithinMemory> within_memory;  // where the GPU has less
  std::vector<OtherLoop> others;              // the loop itself first
  std::vector<std::string> assumptions, warnings;

  std::int64_t tokens_of(const StepBatch& batch) const { return batch.tokens > 0 ? batch.tokens : usual_tokens; }
  std::size_t peak_step() const;  // of allocated bytes
  std::int64_t reserved_bytes() const;
  std::int64_t device_bytes() const { return reserved_bytes() + context_bytes; }
  bool fits() const;  // true where no memory size is known
  /// The steps at whose end more is reserved than ever before.
  std::vector<std::size_t> growing_steps() const;
};

std::string lengths_text(const LengthsReport& report, const TextStyle& style);
/// A row a step.
std::string lengths_csv(const LengthsReport& report);
/// gpuplan.lengths/1 (lengths_json_schema).
std::string lengths_json(const LengthsReport& report, std::string_view version);
std::string lengths_json_schema();

}  // namespace gpuplan
