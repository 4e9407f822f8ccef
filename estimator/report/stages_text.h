// What `gpuplan plan --tp --pp` prints of the stages of a GPT.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/device/gpu.h"
#include "estimator/parallel/stage_plan.h"
#include "estimator/report/report.h"
#include "estimator/report/text_style.h"

namespace gpuplan {

struct StagesReport {
  std::string model;
  RunConfig run;           // of all ranks together
  std::optional<Gpu> gpu;  // each; nothing where none is named
  Strategy strategy;
  std::vector<StageRow> stages;
  std::int64_t context_bytes = 0;
  std::int64_t nccl_bytes = 0;  // of context_bytes
  Confidence context_confidence = Confidence::assumed;

  /// The stage that takes most, the first of equals.
  std::size_t fullest() const;
  /// What a rank of it needs of its device.
  std::int64_t device_bytes() const;
  /// Whether every stage fits; true where no memory size is known.
  bool fits() const;
};

/// What is run, the verdict, and a row a stage; the verdict alone where a brief page is wanted.
std::string stages_text(const StagesReport& report, const TextStyle& style);

}  // namespace gpuplan
