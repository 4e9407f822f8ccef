// What plan and layers share: from flags to a report.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/plan/plan.h"
#include "estimator/plan/timing.h"
#include "estimator/report/writers.h"
#include "estimator/search/suggestions.h"
#include "tools/options/run_options.h"

namespace gpuplan {

struct Planning {
  RunConfig run;
  std::optional<Gpu> gpu;
  bool gpu_is_limit = false;  // --gpu was a size
  Margin margin;              // taken off the GPU's memory already
  HostCopy copy = HostCopy::pinned;
  Model model;
  std::optional<Model>
      other_padding;              // of a batch without padding where `model` has some, or with: neither was asked for
  PartOfContext part_of_context;  // of a model whose tokens are not shared
  std::vector<std::string> warnings;  // of what was read, beside those of the plan
};

/// What a --gpu that is a size is warned of.
constexpr const char* kOnlyALimit =
    "--gpu is only a memory limit: kernel choices and workspaces are those of an A100-class GPU";

/// --host-copy.
HostCopy host_copy(const RunOptions& options);
/// --margin, which is taken off the memory of `gpu`. Throws Error (usage) for a margin of no GPU.
Margin take_margin(const RunOptions& options, std::optional<Gpu>& gpu);
/// Reads the flags first, then the device, then the model, so that a typing error costs nothing.
Planning prepare(const RunOptions& options);
struct WrittenModel;  // estimator/compare/causes.h
/// How many ranks share each layer of a model that has_tensor_plan(), and the tokens of each sample.
struct SharingRanks {
  std::int64_t tensor = 1, context = 1;
};
/// As one of them has it, of which `written` is told.
Model read_part(WrittenModel& written, const SharingRanks& ranks);
/// A planning of one of them.
Planning prepare_rank(const RunOptions& options, const SharingRanks& ranks);
/// The same without a model, which is then read by someone else.
Planning prepare_run(const RunOptions& options);
/// What to warn of where the file of a model says its weights are of another type than they are planned with, and no
/// flag says which; else nothing.
std::vector<std::string> about_stored_type(const std::string& stored_type, const RunOptions& options);
/// A plan with all that is told of it. The model is that of the Planning, which outlives it.
struct PlannedReport {
  Plan plan;
  Report report;
};
/// Of one rank of `strategy`; one GPU by default.
PlannedReport make_planned(const Planning& planning, const Strategy& strategy = {}, const Topology& topology = {});
Report make_report(const Planning& planning, const Strategy& strategy = {}, const Topology& topology = {});
/// Changes to a step that does not fit, each by itself, with what is needed then. Those that fit; when none does, the
/// closest one.
std::vector<Suggestion> suggest(const Planning& planning, const Report& report);
/// Prints warnings, those of a report for one, unless `quiet`. False when there are any and `strict`, which is then
/// said: the answer is no.
bool show_warnings(const std::vector<std::string>& warnings, bool quiet, bool strict);
inline bool show_warnings(const Report& report, bool quiet, bool strict) {
  return show_warnings(report.warnings, quiet, strict);
}

}  // namespace gpuplan
