// One rank of DDP, of DDP with ZeroRedundancyOptimizer and of FSDP2, phase by phase, beside what PyTorch 2.15 allocated
// on an imagined H200 (parallel/recorded.jsonl; recorders/several_gpus.py says how).
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "estimator/distributed/tensor_plan.h"
#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tests/support/recorded_phases.h"
#include "tools/importers/megatron_model.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

using nlohmann::json;

// "fsdp2_keep+bf16+fp32_op": a way to share the model and words behind it, of which some end in a number, and a policy
// (recorders/several_gpus.py, Kind).
struct Kind {
  std::string way, policy;
  std::map<std::string, std::int64_t> words;
  bool has(const char* word) const { return words.contains(word); }
  std::int64_t number(const char* word) const { return has(word) ? words.at(word) : 1; }
};

Kind kind_of(const json& r) {
  Kind kind;
  std::istringstream parts(r.at("kind").get<std::string>());
  for (std::string word; std::getline(parts, word, '_');) {
    const std::size_t plus = word.find('+');
    if (plus != std::string::npos) kind.policy = word.substr(plus + 1);
    word.resize(std::min(plus, word.size()));
    const std::size_t end = word.find_last_not_of("0123456789") + 1;
    if (kind.way.empty())
      kind.way = word;
    else
      kind.words[word.substr(0, end)] = end < word.size() ? std::stoll(word.substr(end)) : 1;
  }
  return kind;
}

// "bf16+fp32": what is gathered, and what is reduced.
void read_policy(const std::string& policy, Strategy& s) {
  if (policy.empty()) return;
  const std::size_t plus = policy.find('+');
  const auto type = [](const std::string& word) { return word == "as" ? std::nullopt : dtype_from_name(word); };
  s.param_type = type(policy.substr(0, plus));
  if (plus != std::string::npos) s.reduce_type = type(policy.substr(plus + 1));
}

FlatSettings::Prefetch prefetch_of(const Kind& kind, FlatSettings::Prefetch otherwise) {
  using Prefetch = FlatSettings::Prefetch;
  return kind.has("pre") ? Prefetch::before : kind.has("post") ? Prefetch::after : otherwise;
}

void read_flat(const Kind& kind, Strategy& s) {
  using Prefetch = FlatSettings::Prefetch;
  s.data = DataParallel::fsdp;
  FlatSettings& flat = s.flat.emplace();
  flat.prefetch = prefetch_of(kind, kind.has("lazy") ? Prefetch::none : Prefetch::before);
  flat.original_parameters = kind.has("orig");
  flat.gathers_ahead = kind.has("ahead");
  flat.sends_states = kind.has("send");
  if (kind.has("buffers")) flat.buffer_type = DType::bf16;
}

Strategy strategy_of(const json& r) {
  const Kind kind = kind_of(r);
  Strategy s;
  if (kind.way == "ddp") s.data = DataParallel::ddp;
  if (kind.way == "zero1") s.data = DataParallel::zero1;
  if (kind.way == "fsdp2") s.data = DataParallel::fsdp;
  if (kind.way == "fsdp1") read_flat(kind, s);
  if (kind.way == "accelerate") {
    s.data = DataParallel::fsdp;
    if (kind.has("fsdp")) read_flat(kind, s);
    if (!kind.has("no")) s.param_type = s.reduce_type = DType::bf16;
    if (kind.has("fsdp") && !kind.has("no")) s.flat->buffer_type = DType::bf16;
    if (kind.has("fsdp")) s.flat->sends_states = !kind.has("lazy");
    if (kind.has("fsdp")) s.flat->prefetch = prefetch_of(kind, FlatSettings::Prefetch::none);
  }
  if (kind.way == "trainer" && !kind.has("fsdp")) s.data = DataParallel::ddp;
  if (kind.way == "trainer" && kind.has("fsdp")) {
    s.data = DataParallel::fsdp;
    if (kind.has("amp")) s.param_type = s.reduce_type = DType::bf16;
  }
  if (kind.way == "megatron") {
    s.data = DataParallel::megatron;
    s.megatron = {.distributed_optimizer = kind.has("do"),
                  .fp32_gradients = !kind.has("half"),
                  .overlaps_reductions = kind.has("overlap"),
                  .overlaps_gathers = kind.has("gather"),
                  .bucket_elements = kind.has("bucket") ? kind.number("bucket") * 1'000'000 : 0,
                  .transformer_engine = kind.has("te"),
                  .sequence_parallel = kind.has("sp")};
  }
  if (kind.way == "deepspeed") {
    const bool divides = kind.number("stage") == 3;
    s.data = divides ? DataParallel::zero3 : DataParallel::zero2;
    s.partitions_gradients = kind.number("stage") >= 2;
    s.made_partitioned = kind.has("init");
    s.overlaps_reductions = divides ? !kind.has("nooverlap") : kind.has("overlap");
    constexpr std::int64_t kMillion = 1'000'000;
    if (kind.has("bucket")) s.reduce_bucket_elements = kind.number("bucket") * kMillion;
    if (kind.has("prefetch")) s.partition.prefetch_elements = kind.number("prefetch") * kMillion;
    if (kind.has("live")) s.partition.live_elements = kind.number("live") * kMillion;
    if (kind.has("reuse")) s.partition.reuse_elements = kind.number("reuse") * kMillion;
    if (kind.has("part")) s.partition.part_elements = kind.number("part") * kMillion;
    if (kind.has("persist")) s.partition.persistence_elements = kind.number("persist");
  }
  s.gradient_as_bucket_view = kind.has("view");
  s.find_unused_parameters = kind.has("unused");
  s.reshard_after_forward = !kind.has("keep") && !kind.has("gradop");
  s.keeps_last_block = kind.has("last") || kind.has("lastroot");
  s.reshards_root = kind.has("root") || kind.has("lastroot");
  s.as_accelerate = s.loads_whole = kind.way == "accelerate" || (kind.way == "trainer" && kind.has("fsdp"));
  s.moves_units = kind.has("lazy") && !s.flat;
  s.loads_whole = s.loads_whole && !s.moves_units && !s.flat;
  s.experts = kind.number("ep");
  s.expert_load = kind.has("load") ? static_cast<double>(kind.number("load")) / 100 : 1;
  s.context = kind.number("cp");
  s.wraps_ends = kind.has("ends") || kind.has("ep") || (s.as_accelerate && !s.flat);
  s.replicas = kind.has("noshard") ? r.at("world").get<std::int64_t>() : kind.number(s.flat ? "hybrid" : "hsdp");
  s.offloads = kind.has("offload") || kind.has("offoptimizer");
  s.offloads_parameters = kind.has("offparam");
  s.reduces_last = kind.has("nosync");
  s.gpus = r.at("world");
  s.tensor = kind.number("tp");
  s.tensor_plan = {.sequence = kind.has("sequence"), .loss = kind.has("loss")};
  if (kind.way == "pp") {
    if (kind.has("shards")) s.data = DataParallel::fsdp;
    if (kind.has("shards")) s.reshard_after_forward = kind.has("reshard");
    s.reduces_last = kind.has("shards");
    s.pipeline = s.gpus / kind.number("shards") / s.tensor;
    s.pipelining.schedule = kind.has("gpipe")                   ? PipelineSchedule::gpipe
                            : kind.has("interleaved1f1b")       ? PipelineSchedule::interleaved_1f1b
                            : kind.has("loopedbfs")             ? PipelineSchedule::looped_bfs
                            : kind.has("interleavedzerobubble") ? PipelineSchedule::interleaved_zero_bubble
                            : kind.has("zbvzerobubble")         ? PipelineSchedule::zbv
                            : kind.has("dualpipev")             ? PipelineSchedule::dual_pipe_v
                                                                : PipelineSchedule::one_f_one_b;
    s.pipelining.stages_each = kind.number("stages");
    s.pipelining.stage = r.at("rank").get<std::int64_t>() / kind.number("shards") / s.tensor;
    s.pipelining.returns_outputs = !kind.has("drop");
  }
  s.rank = r.at("rank").get<std::int64_t>() / s.tensor % s.ranks();
  if (r.at("model") == "uneven") s.unit_glob = "*";
  read_policy(kind.policy, s);
  return s;
}

RunConfig run_of(const json& r) {
  const Kind kind = kind_of(r);
  RunOptions loop;
  if (kind.way == "trainer") loop.like = "trainer";
  RunConfig run = run_config(loop);
  if (r.at("torch").get<std::string>().starts_with("2.8")) run.pytorch = 208;
  run.micro_batches = kind.number("acc") * kind.number("nosync");
  run.tensor_ranks = kind.number("tp");
  run.tensor_plan = strategy_of(r).tensor_plan;
  run.batch = r.at("batch").get<std::int64_t>() * strategy_of(r).sample_groups() * run.micro_batches;
  run.clip_grad_norm = run.clip_grad_norm || kind.has("clip");
  if (kind.has("infer")) run.mode = Mode::infer;
  if (run.tensor_ranks > 1 && !kind.has("sequence") &&
      (kind.way == "single" || (kind.way == "pp" && !kind.has("shards"))))
    run.optimizer.impl = OptimizerImpl::for_loop;
  if (kind.has("fused")) run.optimizer.impl = OptimizerImpl::fused;
  if (kind.has("loop")) run.optimizer.impl = OptimizerImpl::for_loop;
  const std::string optimizer = r.at("optimizer");
  run.optimizer.kind = optimizer == "adam"    ? OptimizerKind::adam
                       : optimizer == "adamw" ? OptimizerKind::adamw
                                              : OptimizerKind::sgd;
  run.optimizer.momentum = optimizer == "momentum";
  if (kind.way != "trainer") run.loop = Loop::function;
  if (kind.has("bf") || kind.has("nf") || kind.way == "megatron") run.precision = DType::bf16;
  if (kind.has("amp") && !strategy_of(r).as_accelerate) run.autocast = DType::bf16;
  if (kind.has("nf")) run.weights = WeightFormat::nf4;
  if (kind.way == "deepspeed") run.precision = kind.has("fp") ? DType::fp16 : DType::bf16;
  if (kind.has("lora")) run.lora = Lora{.rank = kind.number("lora"), .targets = {std::string(kAllLinear)}};
  if (kind.has("attention")) run.lora->targets = {"q_proj", "k_proj", "v_proj", "o_proj"};
  if (kind.has("only")) run.lora->targets = {"layers." + std::to_string(kind.number("only")) + ".self_attn.q_proj"};
  if (kind.has("savefull")) run.save = SavedCheckpoint::full;
  if (kind.has("savemodel")) run.save = SavedCheckpoint::model;
  if (kind.has("saveshards")) run.save = SavedCheckpoint::sharded;
  run.offload_saved = kind.has("onhost");
  if (kind.has("block") || kind.has("full")) run.checkpoint.kind = CheckpointConfig::Kind::block;
  run.checkpoint.reentrant = kind.has("full");
  if (kind.has("op")) run.checkpoint.kind = CheckpointConfig::Kind::op;
  return run;
}

// As one rank of tensor or context parallelism has it.
Model model_of(const json& r) {
  const std::string name = r.at("model");
  const Kind kind = kind_of(r);
  RunOptions options;
  options.model = "zoo:" + name;
  const std::string file = GPUPLAN_SOURCE_DIR "/tests/parallel/models/" + name;
  if (std::filesystem::exists(file + ".yaml")) options.model = file + ".yaml";
  if (std::filesystem::exists(file + ".json")) {  // a decoder
    options.model = file + ".json";
    options.seq = std::to_string((kind.has("seq") ? kind.number("seq") : 1024) / kind.number("cp"));
  }
  if (kind.way == "megatron") {  // recorders/megatron_steps.py, MODELS
    const bool wide = name == "megatron_wide";
    const MegatronModel of{.layers = wide ? 2 : 6,
                           .hidden = wide ? 5120 : 768,
                           .inner = wide ? 13824 : 2048,
                           .heads = wide ? 40 : 16,
                           .groups = wide ? 40 : 8,
                           .head = wide ? 128 : 48,
                           .tokens = kind.has("seq") ? kind.number("seq") : 1024,
                           .vocabulary = 32000,
                           .ranks = kind.number("tp"),
                           .recomputes_attention = kind.has("core"),
                           .transformer_engine = kind.has("te"),
                           .sequence_parallel = kind.has("sp"),
                           .context = kind.number("cp")};
    options.piped = std::make_shared<const Source>(Source{name, megatron_spec(of)});
    return load_model(options);
  }
  if (kind.has("tp"))
    for (const Variable& part : divided_variables(load_model(options), kind.number("tp")))
      options.set.push_back(part.name + "=" + std::to_string(part.value));
  return load_model(options);
}

Reading reading_of(const json& r) {
  return {
      .requested_bytes = r.at("requested"), .allocated_bytes = r.at("allocated"), .reserved_bytes = r.at("reserved")};
}

std::string name_of_run(const json& r) {
  const auto word = [&](const char* key) { return r.at(key).get<std::string>(); };
  return word("model") + " " + word("kind") + " " + word("optimizer") + " b" + r.at("batch").dump() + " rank " +
         r.at("rank").dump() + " of " + r.at("world").dump() +
         (run_of(r).pytorch == RunConfig{}.pytorch ? "" : " PyTorch 2.8");
}

// Trainer calls back after backward: what it reads is the peak of the forward, too.
Reading peak_of(const Report& report, bool steady, const std::string& phase, const json& r) {
  Reading peak = planned_phase(report, steady, phase).peak;
  if (kind_of(r).way != "trainer" || phase != "backward") return peak;
  for (const char* before : {"forward", "loss"}) {
    const Reading& of = planned_phase(report, steady, before).peak;
    peak.requested_bytes = std::max(peak.requested_bytes, of.requested_bytes);
    peak.allocated_bytes = std::max(peak.allocated_bytes, of.allocated_bytes);
    peak.reserved_bytes = std::max(peak.reserved_bytes, of.reserved_bytes);
  }
  return peak;
}

void score_run(std::vector<ScoreRow>& rows, const json& r) {
  const Gpu gpu = *gpu_called("h200");
  const Report report = report_of(make_plan(model_of(r), make_catalog(), run_of(r), &gpu, strategy_of(r)));
  ScoreRow row{.suite = "parallel h200", .run = name_of_run(r), .quantity = "optimizer_state"};
  row.expected = r.at("optimizer_state");
  row.got = report.bytes.optimizer_state;
  rows.push_back(row);
  for (const bool steady : {false, true}) {
    const std::string step = steady ? "steady" : "first";
    for (const auto& [phase, recorded] : r.at(step).items()) {
      const PhaseRow& planned = planned_phase(report, steady, phase);
      if (phase == "start" && kind_of(r).way == "trainer") continue;  // its peak is of what Trainer does between steps
      row.quantity = step + "." + phase + ".live";
      score_reading(rows, row, reading_of(recorded.at("live")), planned.live);
      row.quantity = step + "." + phase + ".peak";
      score_reading(rows, row, reading_of(recorded.at("peak")), peak_of(report, steady, phase, r));
    }
  }
}

}  // namespace

Scored score_parallel(const std::string& root) {
  std::ifstream file(root + "/tests/parallel/recorded.jsonl");
  if (!file) throw std::runtime_error("there is no tests/parallel/recorded.jsonl");
  Scored scored;
  for (std::string line; std::getline(file, line);) score_run(scored.rows, json::parse(line));
  return scored;
}

}  // namespace gpuplan
