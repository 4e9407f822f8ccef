#include "tools/answers/stages.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/device/arithmetic.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/distributed/stage_sends.h"
#include "estimator/plan/make_report.h"
#include "estimator/plan/plan.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/stages_text.h"
#include "estimator/search/device_bytes.h"
#include "estimator/time/step_time.h"
#include "layers/catalog.h"
#include "tools/answers/report_page.h"
#include "tools/options/run_words.h"
#include "tools/process/version.h"

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
  const std::string optimizer = name_of(run.optimizer);
  if (!o.optimizer.empty() && optimizer != "adam" && optimizer != "adamw")
    throw refused("--opt " + o.optimizer, "Megatron-LM's formulas assume Adam")
        .help("--opt adam or adamw, or leave it out");
  if (!o.precision.empty() && run.precision != DType::fp16 && run.precision != DType::bf16)
    throw refused("--precision " + o.precision, "Megatron-LM keeps half-precision weights with fp32 master copies")
        .help("--precision bf16 or fp16, or leave it out");
  using Kind = CheckpointConfig::Kind;
  if (run.checkpoint.kind == Kind::every || run.checkpoint.kind == Kind::glob || run.checkpoint.kind == Kind::op)
    throw refused("--checkpoint " + o.checkpoint, "either all layers are recomputed or none")
        .help("--checkpoint block or none");
  for (const std::string& word : run_words(o)) {
    const std::string flag = word.substr(0, word.find('='));
    if (flag.starts_with("--") && std::ranges::find(kKnown, flag) == kKnown.end())
      throw refused(flag, "Megatron-LM's formulas do not cover it").help("leave it out");
  }
}

void refuse_unprinted(const SeveralGpusOptions& several, const OutputOptions& output) {
  const std::pair<const char*, bool> flags[] = {{"--find-unused-parameters", several.find_unused},
                                                {"--bucket-view", several.bucket_view}};
  for (const auto& [flag, given] : flags)
    if (given) throw refused(flag, "stages have no buckets").help("leave it out");
  if (!several.rank.empty()) throw refused("--rank", "every stage is printed").help("leave it out");
  if (!several.context.empty()) throw refused("--cp", "Megatron-LM's formulas do not cover it").help("leave it out");
  if (!output.depth.empty() || !output.rows.empty() || !output.sort.empty() || !output.columns.empty())
    throw refused("a layer table", "stages have a table of their own")
        .help("leave out --depth, -n, --sort and --columns");
  std::vector<OutputFile> wanted = files_of(output);
  wanted.push_back({format_of(output), ""});
  for (const OutputFile& file : wanted)
    if (file.format != Format::table && file.format != Format::json && file.format != Format::html)
      throw Error("stages are printed as a table, as JSON or as HTML", ErrorKind::usage)
          .help("--format table, json or html");
}

RunConfig run_of_stages(const Planning& planning, const RunOptions& options) {
  RunConfig own = planning.run;
  if (options.optimizer.empty()) own.optimizer.kind = OptimizerKind::adam;
  const bool bf16 = !planning.gpu || computes(*planning.gpu, Arithmetic::bf16);
  if (options.precision.empty()) own.precision = bf16 ? DType::bf16 : DType::fp16;
  if (planning.gpu) refuse_arithmetic(own, *planning.gpu);
  return own;
}

std::int64_t parameters_of(const Planning& planning) {
  RunConfig one;
  one.batch = 1;
  return plan(planning.model, make_catalog(), one).model.parameters;
}

TransformerRun transformer_run(const StagesReport& report) {
  TransformerRun run;
  run.batch = report.run.batch;
  run.micro_batch = report.run.batch / report.strategy.ranks() / report.run.micro_batches;
  run.tensor = report.strategy.tensor;
  run.pipeline = report.strategy.pipeline;
  run.gpus = report.strategy.gpus;
  run.recompute = report.recompute;
  run.shared_optimizer = report.strategy.data == DataParallel::zero1;
  return run;
}

// What is sent and, on a GPU that is named, how long the step takes.
void tell_time(const Topology& topology, bool timed, StagesReport& report) {
  constexpr double kLongest = 1e9;  // seconds: more comes of figures that no GPU has
  const TransformerRun run = transformer_run(report);
  report.sending_stage = run.pipeline - 1;
  const auto find_sends = [&] {
    report.with_micro_batches = micro_batch_sends(report.transformer, run, report.sending_stage, topology);
  };
  find_sends();
  report.after_backward = step_sends(report.transformer, run, 0, topology);
  if (!timed) return;
  report.no_time = why_no_time(report.run, *report.gpu, HostCopy::none);
  const TimeModel constants;
  const std::optional<GpuSpeed> speed = gpu_speed(*report.gpu, report.run.precision, constants);
  if (!speed) return;
  report.time = transformer_time(report.transformer, run, *speed, topology);
  if (!report.time)
    report.no_time = "the link between the GPUs is not known; give --gpu, and --network for more than one node";
  if (!report.time || !(report.time->step < kLongest)) return report.time.reset();
  report.peak_flops = speed->peak_flops;
  report.measured = report.gpu->measured.has_value();
  report.sending_stage = report.time->pace;
  find_sends();
}

std::string page_of(const StagesReport& report, const OutputOptions& output) {
  TextStyle brief;
  brief.brief = true;
  return report_page({.text = stages_text(report, file_style(output)),
                      .json = stages_json(report, kVersion),
                      .verdict = stages_text(report, brief),
                      .good = report.fits(),
                      .notes = report.warnings,
                      .drawings = {},
                      .memories = {}},
                     output);
}

std::string render(const StagesReport& report, Format format, const TextStyle& style, const OutputOptions& output) {
  if (format == Format::html) return page_of(report, output);
  return format == Format::json ? stages_json(report, kVersion) : stages_text(report, style);
}

}  // namespace

StagesReport stages_report(const Planning& planning, const Strategy& strategy, const RunOptions& run,
                           const SeveralGpusOptions& several) {
  refuse_unknown_to_formulas(run, planning.run);
  StagesReport report;
  report.model = planning.model.name;
  if (!planning.model.sources.empty()) report.file = planning.model.sources.front()->name;
  report.run = run_of_stages(planning, run);
  report.gpu = planning.gpu;
  report.margin = planning.margin;
  report.strategy = strategy;
  const bool recomputes = planning.run.checkpoint.kind == CheckpointConfig::Kind::block;
  report.recompute = recomputes ? RecomputeMode::full : RecomputeMode::none;
  report.transformer = transformer_of(planning.model, parameters_of(planning), strategy);
  report.stages =
      plan_stages(report.transformer, strategy, planning.run.batch, planning.run.micro_batches, report.recompute);
  const Gpu gpu = planning.gpu.value_or(assumed_gpu());
  report.context_bytes = context_bytes(planning.run, gpu, strategy);
  report.nccl_bytes = planning.run.context_bytes ? 0 : nccl_buffers(strategy, gpu, planning.run.pytorch).planned;
  report.context_confidence = context_confidence(planning.run, gpu, strategy);
  if (planning.gpu) report.warnings = emulated_arithmetic(report.run, *planning.gpu);
  tell_time(topology_of(several, planning.gpu), planning.gpu && !planning.gpu_is_limit, report);
  return report;
}

int print_stages(const Planning& planning, const Strategy& strategy, const RunOptions& run,
                 const SeveralGpusOptions& several, const OutputOptions& output) {
  refuse_unknown_to_formulas(run, planning.run);
  refuse_unprinted(several, output);
  const StagesReport report = stages_report(planning, strategy, run, several);
  const bool clean = show_warnings(report.warnings, output.quiet, run.strict);
  for (const OutputFile& file : files_of(output))
    write_report(file, render(report, file.format, file_style(output), output));
  write_stdout(render(report, format_of(output), terminal_style(output), output));
  return clean && report.fits() ? 0 : 1;
}

}  // namespace gpuplan
