// Every recorded figure beside gpuplan's: what PyTorch's tensors did on the CPU (tests/oracle), what its CUDA code
// allocated under a runtime without a GPU (tests/shadow/results, tests/exported) and, where there are any, on a GPU
// (tests/reference). scoreboard_gate.h keeps what came out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gpuplan {

struct ScoreRow {
  std::string suite;     // "oracle 1.13", "oracle 2.x", "shadow h200.torch2.15.nocudnn"
  std::string run;       // "resnet50 b8 adam"
  std::string quantity;  // "steady.backward.peak.allocated"
  std::int64_t expected = 0;
  std::int64_t got = 0;
  std::int64_t at_most = 0;  // the plan's bound, of the peaks that it bounds
};

/// A recording that nothing is planned for, and why.
struct LeftOut {
  std::string run, reason;
};

struct Scored {
  std::vector<ScoreRow> rows;
  std::vector<LeftOut> left_out;
};

/// Recordings that are scored together.
struct ScoreSet {
  std::string name;   // "shadow h200.torch2.15.nocudnn"
  std::string title;  // what the plans are compared with, for README
  std::function<Scored()> score;
};

/// Every set of recordings under tests/. `root` is the repository.
std::vector<ScoreSet> score_sets(const std::string& root);

/// A table of recordings whose rows have tests of their own, such as tests/shadow/attention.t4.torch2.8.tsv.
struct RecordedTable {
  std::string file;       // in the repository
  std::int64_t rows = 0;  // lines that are no comment; one of them may name the columns
  friend bool operator==(const RecordedTable&, const RecordedTable&) = default;
};

/// Every tests/shadow/*.tsv, sorted.
std::vector<RecordedTable> recorded_tables(const std::string& root);

struct ScoreSummary {
  std::string suite;
  std::int64_t runs = 0, equal_runs = 0;  // equal in every figure
  std::int64_t figures = 0, equal_figures = 0;
  double worst_peak_error = 0;  // relative, of the figures that are peaks
  std::string worst;
  double median_allocated_error = 0, p95_allocated_error = 0, bias_allocated = 0;  // peak allocated, a run
  double median_reserved_error = 0, p95_reserved_error = 0;
};

ScoreSummary summarize(const std::string& suite, const std::vector<ScoreRow>& rows);

// --- by where they were recorded: what cannot be read throws std::runtime_error, with the file ---

Scored score_oracle(const std::string& root, int pytorch);

Scored score_shadow(const std::string& root, const std::string& set);
/// The sets under tests/shadow/results, sorted.
std::vector<std::string> shadow_sets(const std::string& root);

/// tests/exported/SET.tsv: steps of exported models, by the specs beside it.
Scored score_exported(const std::string& root, const std::string& set);
std::vector<std::string> exported_sets(const std::string& root);
/// tests/exported/masks: steps with an attention_mask.
Scored score_masks(const std::string& root);

/// tests/huggingface/steps: a small model of every class that a config.json is imported as.
Scored score_imported(const std::string& root);
/// tests/recorded/fine_tuning: models that are fine-tuned, by the flags that stand beside them.
Scored score_fine_tuned(const std::string& root);
/// tests/recorded/trainers: the same in the loops of transformers' Trainer, accelerate and Lightning.
Scored score_trainers(const std::string& root);
/// tests/recorded/lengths: loops whose batches are of unequal length, step by step.
Scored score_lengths(const std::string& root);
/// tests/recorded/evaluation: training with an evaluation in between, step by step.
Scored score_evaluations(const std::string& root);
/// tests/parallel: one rank of DDP, of DDP with ZeroRedundancyOptimizer and of FSDP2.
Scored score_parallel(const std::string& root);
/// tests/learned: models learned at small batches, planned at batch 64.
Scored score_learned(const std::string& root);
Scored score_readings(const std::string& root);

/// A folder of recordings in the form that tests/recorders/compare_pytorch.py writes: env.json and models.json. `gpu`
/// is its name in configs/gpus.
Scored score_reference(const std::string& root, const std::string& folder, const std::string& gpu);
/// The folders under tests/reference, each named after its GPU, sorted; empty while nothing was recorded on one.
std::vector<std::string> reference_gpus(const std::string& root);

}  // namespace gpuplan
