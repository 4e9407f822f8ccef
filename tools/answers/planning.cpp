#include "tools/answers/planning.h"

#include <algorithm>

#include "estimator/base/amount.h"
#include "estimator/distributed/context_plan.h"
#include "estimator/distributed/tensor_plan.h"
#include "estimator/plan/at_most.h"
#include "estimator/plan/plan.h"
#include "estimator/report/time_text.h"
#include "estimator/search/suggestions.h"
#include "estimator/spec/read.h"
#include "estimator/time/rank_time.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tools/options/commit_model.h"
#include "tools/options/learned_trace_input.h"
#include "tools/options/output_options.h"
#include "tools/options/run_values.h"
#include "tools/options/words.h"

namespace gpuplan {

HostCopy host_copy(const RunOptions& options) {
  return choice_or<HostCopy>("--host-copy", options.host_copy, HostCopy::pinned,
                             {{"pageable", HostCopy::pageable},
                              {"pinned", HostCopy::pinned},
                              {"overlapped", HostCopy::overlapped},
                              {"none", HostCopy::none}});
}

Margin take_margin(const RunOptions& options, std::optional<Gpu>& gpu) {
  if (options.margin.empty()) return {};
  const std::int64_t hundredths = percentage("--margin", options.margin);
  if (!gpu) throw Error("--margin needs a GPU", ErrorKind::usage).help("name a GPU or a size with --gpu");
  const Margin margin{hundredths, usable_bytes(*gpu)};
  gpu->cuda_total_bytes = margin.usable_bytes - share_of(margin.usable_bytes, hundredths);
  return margin;
}

Planning prepare_run(const RunOptions& options) {
  Planning planning;
  planning.run = run_config(options);
  planning.gpu = load_gpu(options);
  planning.gpu_is_limit = size_in_bytes(options.gpu).has_value();
  planning.margin = take_margin(options, planning.gpu);
  planning.copy = host_copy(options);
  return planning;
}

namespace {

// A spec that was exported with an attention_mask has the variable.
std::optional<Model> other_padding(const WrittenModel& written, const Model& model) {
  constexpr std::string_view kPadded = "padded";
  const auto is_padded = [&](const Variable& v) { return v.name == kPadded; };
  const auto found = std::ranges::find_if(model.vars, is_padded);
  if (found == model.vars.end() || found->value < 0 || found->value > 1) return std::nullopt;
  if (std::ranges::any_of(written.options.set, is_padded)) return std::nullopt;
  SpecOptions other = written.options;
  other.set.push_back({std::string(kPadded), 1 - found->value});
  return read_model(written.source, other);
}

}  // namespace

Planning prepare(const RunOptions& options) { return prepare_rank(options, {}); }

Model read_part(WrittenModel& written, const SharingRanks& ranks) {
  Model model = read_model(written.source, written.options);
  std::vector<Variable> parts;
  if (ranks.tensor > 1) parts = divided_variables(model, ranks.tensor);
  if (ranks.context > 1) parts.push_back(context_variable(model, ranks.context));
  if (parts.empty()) return model;
  written.options.set.insert(written.options.set.end(), parts.begin(), parts.end());
  Model part = read_model(written.source, written.options);
  if (ranks.context > 1) check_context(model, part, ranks.context);
  return part;
}

Planning prepare_rank(const RunOptions& options, const SharingRanks& ranks) {
  refuse_learned_trace({options.model, options.piped});
  Planning planning = prepare_run(options);
  WrittenModel written = open_model(options);
  if (ranks.context == 1)
    planning.part_of_context = [written, ranks](std::int64_t context) {
      WrittenModel of = written;
      return read_part(of, {.tensor = ranks.tensor, .context = context});
    };
  planning.model = read_part(written, ranks);
  planning.run.tensor_ranks = ranks.tensor;
  planning.other_padding = other_padding(written, planning.model);
  planning.warnings = about_stored_type(written.stored_type, options);
  return planning;
}

std::vector<std::string> about_stored_type(const std::string& stored_type, const RunOptions& options) {
  if (stored_type.empty() || !options.precision.empty() || !options.amp.empty()) return {};
  const std::string word = stored_type == "float16" ? "fp16" : "bf16";
  return {"config.json says " + stored_type + "; planned as fp32: --precision " + word + ", or --amp " + word +
          " for fp32 weights and autocast"};
}

namespace {

const char* const kNoLink = "the link between the GPUs is not known; give --gpu, and --network for more than one node";

void tell_time_of(const Plan& plan, HostCopy copy, Report& report) {
  report.no_time = why_no_time(plan.step.run, plan.step.gpu, copy);
  if (!report.no_time.empty()) return;
  if (!report.rank) {
    if (const auto time = step_time(plan.step, copy)) tell_time(*time, report);
    return;
  }
  report.rank->time = rank_time(plan.step, report.rank->communication, copy);
  if (report.rank->time)
    tell_time(report.rank->time->step, report);
  else
    report.no_time = kNoLink;
}

}  // namespace

PlannedReport make_planned(const Planning& planning, const Strategy& strategy, const Topology& topology) {
  const Gpu* const gpu = planning.gpu ? &*planning.gpu : nullptr;
  const bool timed = gpu != nullptr && !planning.gpu_is_limit;
  Plan plan = make_plan(planning.model, make_catalog(), planning.run, gpu, strategy, timed);
  Report report = report_of(plan, topology);
  report.margin = planning.margin;
  if (timed) tell_time_of(plan, planning.copy, report);
  if (planning.other_padding)
    allow_for_padding(
        report_of(make_plan(*planning.other_padding, make_catalog(), planning.run, gpu, strategy), topology), report);
  if (planning.gpu_is_limit) report.warnings.emplace_back(kOnlyALimit);
  report.warnings.insert(report.warnings.end(), planning.warnings.begin(), planning.warnings.end());
  return {std::move(plan), std::move(report)};
}

Report make_report(const Planning& planning, const Strategy& strategy, const Topology& topology) {
  return make_planned(planning, strategy, topology).report;
}

std::vector<Suggestion> suggest(const Planning& planning, const Report& report) {
  if (!planning.gpu) return {};
  const Strategy strategy = report.rank ? report.rank->strategy : Strategy{};
  if (strategy.is_megatron()) return {};  // its script says what is changed, not our flags
  return suggest(planning.model, make_catalog(), report, *planning.gpu, {}, strategy, planning.part_of_context);
}

bool show_warnings(const std::vector<std::string>& warnings, bool quiet, bool strict) {
  if (!quiet || strict)
    for (const std::string& warning : warnings) write_stderr("warning: " + warning + "\n");
  if (!strict || warnings.empty()) return true;
  write_stderr("error: --strict: warnings are treated as errors\n");
  return false;
}

}  // namespace gpuplan
