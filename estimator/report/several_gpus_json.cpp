#include "estimator/report/several_gpus_json.h"

#include <cmath>

namespace gpuplan {

namespace {

std::int64_t microseconds(double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e6)); }

// Null where it is not known. Rounded: the same text everywhere.
Json scaling_json(const Report& report) {
  const RankShare& rank = *report.rank;
  if (!rank.time || rank.time->step.seconds() <= 0) return nullptr;
  const auto rounded = [](double value, double unit) { return std::round(value * unit) / unit; };
  const double samples = static_cast<double>(report.run.batch * rank.strategy.sample_groups());
  return {{"step_seconds", rounded(rank.time->step.seconds(), 1e9)},
          {"one_gpu_seconds", rounded(rank.time->alone_seconds, 1e9)},
          {"samples_per_second", rounded(samples / rank.time->step.seconds(), 1e3)},
          {"scaling_efficiency", rounded(rank.time->efficiency(), 1e4)},
          {"slowest_gpu", rounded(rank.time->slower, 1e4)},
          {"copy_seconds", rounded(rank.time->copy_seconds, 1e9)}};
}

Json pipeline_json(const RankShare& rank) {
  if (!rank.stage) return nullptr;
  const PipelineSettings& settings = rank.strategy.pipelining;
  Json held = Json::array();
  for (const StagePart::Stage& stage : rank.stage->stages)
    held.push_back({{"stage", stage.number}, {"first_block", stage.first_block}, {"blocks", stage.blocks}});
  return {{"schedule", name_of(settings.schedule)},
          {"stages", rank.strategy.stages()},
          {"stage", settings.stage},
          {"first_block", rank.stage->stages.front().first_block},
          {"blocks", rank.stage->stages.front().blocks},
          {"held", std::move(held)},
          {"all_blocks", rank.stage->all_blocks},
          {"micro_batches_in_flight", rank.stage->in_flight},
          {"returns_outputs", settings.returns_outputs}};
}

}  // namespace

Json parallel_json(const Report& report) {
  const RankShare& rank = *report.rank;
  const Strategy& s = rank.strategy;
  Json rows = Json::array();
  for (std::size_t i = 0; i < rank.communication.size(); ++i) {
    const CommunicationRow& row = rank.communication[i];
    rows.push_back({{"what", row.what},
                    {"collective", name_of(row.collective)},
                    {"bytes", row.bytes},
                    {"sent_bytes", row.sent_bytes},
                    {"microseconds", row.seconds ? Json(microseconds(*row.seconds)) : Json(nullptr)},
                    {"exposed_microseconds", rank.time ? Json(microseconds(rank.time->exposed[i])) : Json(nullptr)}});
  }
  Json every = Json::array();
  for (const EveryRank& r : rank.every)
    every.push_back({{"first", r.first},
                     {"last", r.last},
                     {"ranks", r.ranks},
                     {"allocated_bytes", r.allocated_bytes},
                     {"reserved_bytes", r.reserved_bytes},
                     {"device_bytes", r.device_bytes}});
  return {{"data", name_of(s.data)},
          {"gpus", s.gpus},
          {"rank", rank.stage ? s.global_rank() : s.rank},
          {"pipeline", pipeline_json(rank)},
          {"batch", report.run.batch * s.sample_groups()},
          {"bytes",
           {{"parameters", rank.states.parameters},
            {"gradients", rank.states.gradients},
            {"optimizer_state", rank.states.optimizer_state}}},
          {"nccl_bytes", rank.nccl.planned},
          {"least_nccl_bytes", rank.nccl.least},
          {"most_nccl_bytes", rank.nccl.most},
          {"wrapped_blocks", s.data == DataParallel::fsdp ? Json(rank.wrapped) : Json(nullptr)},
          {"fsdp_version", s.data == DataParallel::fsdp ? Json(s.flat ? 1 : 2) : Json(nullptr)},
          {"param_type", s.param_type ? Json(name_of(*s.param_type)) : Json(nullptr)},
          {"reduce_type", s.reduce_type ? Json(name_of(*s.reduce_type)) : Json(nullptr)},
          {"tensor_ranks", s.tensor},
          {"sequence_parallel", s.is_megatron() ? s.megatron.sequence_parallel : s.tensor_plan.sequence},
          {"loss_parallel", s.tensor_plan.loss},
          {"expert_ranks", s.experts},
          {"expert_load", s.expert_load},
          {"context_ranks", s.context},
          {"replicas", s.replicas},
          {"offload", s.offloads},
          {"differing_ranks", rank.differing},
          {"compared_ranks", rank.compared},
          {"every_rank", std::move(every)},
          {"communication", std::move(rows)},
          {"time", scaling_json(report)}};
}

}  // namespace gpuplan
