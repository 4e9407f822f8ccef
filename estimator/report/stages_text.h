// What `gpuplan plan --tp --pp` prints of the stages of a GPT.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/distributed/communication.h"
#include "estimator/distributed/stage_plan.h"
#include "estimator/plan/report.h"
#include "estimator/report/text_style.h"
#include "estimator/time/transformer_time.h"

namespace gpuplan {

struct StagesReport {
  std::string model, file;
  Transformer transformer;
  RunConfig run;           // of all ranks together
  std::optional<Gpu> gpu;  // each; nothing where none is named
  Margin margin;           // of its memory
  Strategy strategy;
  std::vector<StageRow> stages;
  std::int64_t context_bytes = 0;
  std::int64_t nccl_bytes = 0;  // of context_bytes
  Confidence context_confidence = Confidence::assumed;
  RecomputeMode recompute = RecomputeMode::none;
  // What one rank sends: of `sending_stage` with every micro-batch, of the first stage after all of them.
  std::int64_t sending_stage = 0;
  std::vector<CommunicationRow> with_micro_batches, after_backward;
  std::optional<TransformerTime> time;
  std::string no_time;    // why there is none, where a GPU is named
  double peak_flops = 0;  // a second, of one GPU's products
  bool measured = false;  // the GPU's own measurements were used
  std::vector<std::string> warnings;

  /// The stage that takes most, the first of equals.
  std::size_t fullest() const;
  /// What a rank of it needs of its device.
  std::int64_t device_bytes() const;
  /// Whether every stage fits; true where no memory size is known.
  bool fits() const;
};

/// What is run, the verdict, and a row a stage; the verdict alone where a brief page is wanted.
std::string stages_text(const StagesReport& report, const TextStyle& style);
/// gpuplan.stages/1 (stages_json_schema).
std::string stages_json(const StagesReport& report, std::string_view version);
std::string stages_json_schema();

}  // namespace gpuplan
