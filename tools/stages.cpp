#include "tools/stages.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "estimator/device/arithmetic.h"
#include "estimator/parallel/nccl_memory.h"
#include "estimator/plan.h"
#include "estimator/report/run_names.h"
#include "estimator/report/stages_text.h"
#include "estimator/search/device_bytes.h"
#include "layers/catalog.h"
#include "tools/run_words.h"

namespace gpuplan {

namespace {

Error refused(const std::string& flag, const std::string& why) {
  return Error(flag + " with --tp or --pp: " + why, ErrorKind::usage);
}

// The formulas are of one step: half precision, fp32 master copies, Adam, attention whole, a steady loop.
void refuse_unknown_to_formulas(const RunOptions& o, const RunConfig& run) {
  constexpr std::array<std::string_view, 10> kKnown = {"--micro-batches", "--seq",        "--set",    "--opt",
                                                       "--precision",     "--checkpoint", "--master", "--runtime",
                                                       "--weight-decay",  "--strict"};
  if (run.mode == Mode::infer) throw refused("--mode infer", "stages are planned for training");
  const std::string_view optimizer = name_of(run.optimizer);
  if (!o.optimizer.empty() && optimizer != "adam" && optimizer != "adamw")
    throw refused("--opt " + o.optimizer, "the states are Adam's").help("--opt adam or adamw, or leave it out");
  if (!o.precision.empty() && run.precision != DType::fp16 && run.precision != DType::bf16)
    throw refused("--precision " + o.precision, "Megatron-LM's weights are of half precision, with fp32 master copies")
        .help("--precision bf16 or fp16, or leave it out");
  using Kind = CheckpointConfig::Kind;
  if (run.checkpoint.kind == Kind::every || run.checkpoint.kind == Kind::glob)
    throw refused("--checkpoint " + o.checkpoint, "all layers are recomputed or none")
        .help("--checkpoint block or none");
  for (const std::string& word : run_words(o)) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag.starts_with("--") && std::ranges::find(kKnown, flag) == kKnown.end())
      throw refused(flag, "Megatron-LM's formulas do not know it").help("leave it out");
  }
}

void refuse_unprinted(const SeveralGpusOptions& several, const OutputOptions& output) {
  const std::pair<const char*, bool> flags[] = {{"--network", !several.network.empty()},
                                                {"--gpus-per-node", !several.gpus_per_node.empty()},
                                                {"--find-unused-parameters", several.find_unused},
                                                {"--bucket-view", several.bucket_view}};
  for (const auto& [flag, given] : flags)
    if (given) throw refused(flag, "stages are not timed, and have no buckets").help("leave it out");
  if (!several.rank.empty()) throw refused("--rank", "every stage is printed").help("leave it out");
  if (!output.depth.empty() || !output.rows.empty() || !output.sort.empty() || !output.columns.empty())
    throw refused("a layer table", "a stage has rows of its own").help("leave --depth, -n, --sort and --columns out");
  if (format_of(output) != Format::table || !output.files.empty())
    throw Error("stages are printed as a table only", ErrorKind::usage).help("leave out --format and -o");
}

RunConfig run_of_stages(const Planning& planning, const RunOptions& options) {
  RunConfig own = planning.run;
  if (options.optimizer.empty()) own.optimizer.kind = OptimizerKind::adam;
  const bool bf16 = !planning.gpu || computes(*planning.gpu, Arithmetic::bf16);
  if (options.precision.empty()) own.precision = bf16 ? DType::bf16 : DType::fp16;
  if (planning.gpu) refuse_arithmetic(own, *planning.gpu);
  return own;
}

// Of what a plan warns of, what formulas know.
bool show_arithmetic(const RunConfig& run, const Planning& planning, const RunOptions& options,
                     const OutputOptions& output) {
  Report report;
  if (planning.gpu) report.warnings = emulated_arithmetic(run, *planning.gpu);
  return show_warnings(report, output.quiet, options.strict);
}

std::int64_t parameters_of(const Planning& planning) {
  RunConfig one;
  one.batch = 1;
  return plan(planning.model, make_catalog(), one).model.parameters;
}

}  // namespace

int print_stages(const Planning& planning, const Strategy& strategy, const RunOptions& run,
                 const SeveralGpusOptions& several, const OutputOptions& output) {
  refuse_unknown_to_formulas(run, planning.run);
  refuse_unprinted(several, output);
  StagesReport report;
  report.model = planning.model.name;
  report.run = run_of_stages(planning, run);
  report.gpu = planning.gpu;
  report.strategy = strategy;
  const bool recomputes = planning.run.checkpoint.kind == CheckpointConfig::Kind::block;
  report.stages =
      plan_stages(transformer_of(planning.model, parameters_of(planning), strategy), strategy, planning.run.batch,
                  planning.run.micro_batches, recomputes ? Recompute::full : Recompute::none);
  const Gpu gpu = planning.gpu.value_or(assumed_gpu());
  report.context_bytes = context_bytes(planning.run, gpu, strategy);
  report.nccl_bytes = planning.run.context_bytes ? 0 : nccl_bytes(strategy);
  const bool measured = !planning.run.context_bytes && gpu.context_bytes && report.nccl_bytes == 0;
  report.context_confidence = measured ? Confidence::modelled : Confidence::assumed;
  const bool clean = show_arithmetic(report.run, planning, run, output);
  write_stdout(stages_text(report, terminal_style(output)));
  return clean && report.fits() ? 0 : 1;
}

}  // namespace gpuplan
