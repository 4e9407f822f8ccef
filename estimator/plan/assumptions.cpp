#include "estimator/plan/assumptions.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <variant>

#include "estimator/base/format.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/graph/weight_format.h"
#include "estimator/operators/cudnn_query.h"
#include "estimator/operators/slow_convolution.h"
#include "estimator/optimizer/recorded_optimizer.h"
#include "estimator/plan/run_names.h"
#include "estimator/plan/warnings.h"
#include "estimator/spec/work.h"

namespace gpuplan {
namespace {

// Releases whose runs were recorded, on a GPU's allocator or a CPU; the rules of the others are read from their code.
constexpr PyTorchVersion kRecorded[] = {113, 208, 215};

// What decides whether Hugging Face's code makes a mask, and what it leaves out, as variables of a spec have it.
struct SequenceCase {
  std::string_view variable;
  bool value;
  const char* words;
  const char* text;
};
constexpr SequenceCase kSequenceCases[] = {
    {"packed", false, "tokens not packed", "tokens are not packed: a row is one sequence (--set packed=1 otherwise)"},
    {"packed", true, "tokens packed", "tokens are packed: a row is several sequences (--set packed=0 otherwise)"},
    {"padded", false, "batch without padding", "no token of the batch is padding (--set padded=1 otherwise)"},
    {"padded", true, "batch with padding", "some tokens of the batch are padding (--set padded=0 otherwise)"},
    {"prediction_layers", true, "without multi-token prediction",
     "layers of multi-token prediction are not there: transformers' class trains without them, and generates with them "
     "where it is asked to"}};

// Named or not: a limit such as "24 GB" is on the device that is assumed without a name, and has its source.
bool is_assumed(const Gpu& gpu) { return gpu.source == assumed_gpu().source; }

class Collector {
 public:
  Collector(const Report& report, const Gpu& gpu, std::vector<Assumption>& out)
      : report_(report), run_(report.run), gpu_(gpu), out_(out) {}

  void sequences(const Model& model) const {
    for (const Variable& v : model.vars)
      for (const SequenceCase& c : kSequenceCases)
        if (v.name == c.variable && (v.value != 0) == c.value) add(v.name, c.text, c.words);
  }

  // A decoder of transformers called without use_cache=False copies keys and values in the forward, and backward reads
  // the copies. Trainer passes False, and so does a checkpointed block (transformers/modeling_layers.py).
  void cache(const Model& model, const Graph& graph) const {
    const bool own_loop = run_.like == Like::pytorch || run_.like == Like::accelerate;
    using Kind = CheckpointConfig::Kind;
    const bool checkpoints = run_.checkpoint.kind != Kind::none && run_.checkpoint.kind != Kind::as_written;
    if (run_.mode != Mode::train || !own_loop || checkpoints) return;
    const auto is_decoder = [](const Variable& v) { return v.name == "packed"; };
    const auto says = [](const Variable& v) { return v.name == "use_cache"; };
    const auto copies = [&](const Layer& l) {  // of a model that was exported with its cache
      return l.type == "KVCache" && l.ops.begin != l.ops.end;
    };
    if (std::ranges::any_of(graph.layers, copies)) return;
    if (std::ranges::any_of(model.vars, is_decoder) && std::ranges::none_of(model.vars, says))
      add("use_cache",
          "no KV cache is filled in training: use_cache=False; a loop that leaves it on keeps copies of keys and "
          "values",
          "use_cache=False");
  }

  void loss(const Model& model) const {
    if (run_.mode == Mode::train && assumes_loss(model))
      add("loss", "the spec has no \"loss:\", so CrossEntropyLoss() of the model's output is assumed",
          "CrossEntropyLoss assumed");
  }

  void device() const {
    if (is_assumed(gpu_))
      add("gpu", std::string("no GPU is named") + (report_.gpu ? " but a limit" : "") +
                     ": kernel choices and workspaces are those of an A100-class device");
    if (report_.gpu && report_.gpu->memory_assumed)
      add("gpu_memory", "the memory of " + report_.gpu->title +
                            " is assumed to be its nominal size less 7 %, and less 3 % for the driver");
    if (report_.gpu && report_.gpu->memory_bytes > 0)
      add("alone", "nothing else, such as a display, uses the GPU's memory (--margin keeps some free)");
  }

  void search(const Model& model) const {
    if (report_.gpu && !may_search(model, run_))
      add("search", "suggestions were not searched for: " + format_count(planning_work(model, run_)) +
                        " layers are too many to plan repeatedly");
  }

  void runtime(const Strategy& strategy) const {
    const std::int64_t nccl = run_.context_bytes ? 0 : nccl_buffers(strategy, gpu_, run_.pytorch).planned;
    const std::string whence = run_.context_bytes   ? "as --runtime says"
                               : gpu_.context_bytes ? "as measured on one such GPU"
                                                    : "assumed (--runtime says otherwise)";
    add("context",
        "the CUDA context and libraries take " + format_bytes(report_.peak.context_bytes - nccl) + ", " + whence);
    if (nccl > 0)
      add("nccl", "NCCL's buffers take " + format_bytes(nccl) + ", by the rules of NCCL " +
                      std::string(nccl_of(run_.pytorch).name) + "'s source");
    if (strategy.is_deepspeed() && !by_definition(run_, strategy) && run_.precision == DType::fp16)
      add("deepspeed_overflow", "no step's gradients overflow; DeepSpeed skips the optimizer of those that do");
    if (strategy.flat && strategy.flat->prefetch != FlatSettings::Prefetch::before)
      add("fsdp1_time", "the time is that of prefetch=pre: memory alone follows prefetch=");
    if (strategy.is_megatron()) {
      add("megatron_compiled",
          "torch.compile's cache on disk knows the fastest kernels of Megatron-core's fused functions: else the first "
          "step measures them beside a buffer of the L2 cache's size");
      add("megatron_nan",
          "--check-for-nan-in-loss-and-grad, a norm of each bucket before it is reduced, is not counted");
      if (run_.clip_grad_norm) add("megatron_clip", "gradients are clipped: their norm is above --clip-grad");
    }
    if (strategy.data == DataParallel::zero3 && !by_definition(run_, strategy)) {
      if (strategy.made_partitioned)
        add("zero_init",
            "the model is made under deepspeed.zero.Init, as transformers and Accelerate do it; without that all of it "
            "is on the GPU first");
      if (run_.lora && run_.checkpoint.kind > CheckpointConfig::Kind::none)
        add("input_require_grads",
            "adapters beside checkpointed blocks are trained with enable_input_require_grads(), as transformers does "
            "it");
      add("deepspeed",
          "a module of DeepSpeed's stage 3 waits for its parameters in the order of a Python set, which differs "
          "from run to run: that which takes the most is planned");
    }
    if (by_definition(run_, strategy))
      add("deepspeed", "ZeRO stages 2 and 3 are planned by definition, without DeepSpeed's own buffers");
  }

  // aten/src/ATen/native/Convolution.cpp, select_conv_backend: Slow2d, SlowTranspose2d, and overridable groups of them.
  void slow_convolutions(std::span<const Schedule> passes) const {
    const auto slow = [&](const ScheduledOp& step) {
      return step.what != nullptr && runs_without_cudnn(*step.what, gpu_);
    };
    if (std::ranges::any_of(passes, [&](const Schedule& s) { return std::ranges::any_of(s.ops, slow); }))
      add("slow_convolutions",
          "before Ampere PyTorch runs bf16 convolutions without cuDNN, one sample at a time: the im2col buffers and "
          "workspaces of transposed and grouped convolutions, and some in backward, are not planned",
          "bf16 convolutions without cuDNN");
  }

  void workspaces(std::span<const Schedule> passes) const {
    if (run_.scratch != Scratch::full)
      return add("scratch",
                 std::string(run_.scratch == Scratch::none ? "no kernel's scratch" : "no workspace of cuDNN") +
                     " is counted (--scratch " + std::string(name_of(run_.scratch)) + ")");
    std::int64_t calls = 0, by_rule = 0;
    for (const Schedule& schedule : passes)
      for (const ScheduledOp& step : schedule.ops) {
        const auto* const c = step.what == nullptr ? nullptr : std::get_if<Convolution>(step.what);
        if (c == nullptr || c->native || runs_without_cudnn(*step.what, gpu_) || c->dtype == DType::fp64) continue;
        ++calls;
        by_rule += has_recorded_workspace(cudnn_query(*c), gpu_) ? 0 : 1;
      }
    if (by_rule > 0)
      add("cudnn_workspaces", "a rule trained on recordings gives the cuDNN workspaces of " + format_count(by_rule) +
                                  " of " + format_count(calls) + " calls of convolutions");
    const auto recurrent = [](const LayerRow& l) { return l.type == "LSTM" || l.type == "GRU" || l.type == "RNN"; };
    if (std::ranges::any_of(report_.layers, recurrent))
      add("recurrent", "cuDNN's reserve and workspace of recurrent layers are what cuDNN 9 answers without a GPU");
  }

  void stored_weights() const {
    const std::string format(name_of(run_.weights));
    if (is_bitsandbytes(run_.weights)) {
      const bool prepared = loaded_type(run_) != run_.precision;
      add("weights",
          "weights in " + format +
              " are loaded and computed with as by transformers 5.23 and bitsandbytes 0.50: from_pretrained() in " +
              std::string(name_of(loaded_type(run_))) + (prepared ? ", then prepare_model_for_kbit_training()" : "") +
              (run_.weights == WeightFormat::int8 ? "; no batch has columns of outliers" : ""),
          run_.weights == WeightFormat::int8 ? "no outliers" : "");
    } else if (run_.weights != WeightFormat::as_computed) {
      add("weights", "weights stored in " + format + " take what their format says");
    }
    if (run_.lora)
      add("lora", "adapters are peft 0.21's, added to the model on the GPU (" + lora_text(*run_.lora) + ")");
  }

  void loop() const {
    const char* const whose = run_.like == Like::trainer      ? "transformers 5.23's Trainer"
                              : run_.like == Like::accelerate ? "accelerate 1.15's"
                              : run_.like == Like::lightning  ? "Lightning 2.6's"
                                                              : nullptr;
    if (whose != nullptr)
      add("like", std::string("the training loop is ") + whose +
                      ", as recorded on one GPU; nothing is logged, saved or evaluated between steps");
  }

  void stages() const {
    if (report_.rank && report_.rank->stage)
      add("pipeline",
          "stages are run by torch.distributed.pipelining of PyTorch 2.15: modules are made on meta, the batch is on "
          "the first and the last stage, and shapes are inferred by a run before the first step");
  }

  void figures() const {
    stages();
    stored_weights();
    loop();
    if (run_.kernels == Kernels::liger)
      add("kernels", "norms, gated products, rotary positions and the loss are liger-kernel 0.8.5's");
    if (run_.mode == Mode::train && run_.optimizer.recorder)
      add("optimizer",
          "what " + run_.optimizer.recorder->name() +
              " allocates was recorded: its first three steps, taken by PyTorch of parameters like the "
              "model's on a simulated GPU; of what it stores on the host or chooses by values nothing is "
              "known" +
              (run_.like == Like::trainer ? "; it has one group of parameters, Trainer makes two" : ""),
          "optimizer recorded");
    if (run_.generation.part != Generation::Part::none)
      add("generation", "only the last step of the generation is planned");
    if (std::ranges::find(kRecorded, run_.pytorch) == std::end(kRecorded))
      add("pytorch", "nothing was recorded with PyTorch " + version_text(run_.pytorch) +
                         ": its rules are taken from its source code");
  }

 private:
  void add(std::string id, std::string text, std::string words = {}) const {
    out_.push_back({std::move(id), std::move(text), std::move(words)});
  }

  const Report& report_;
  const RunConfig& run_;
  const Gpu& gpu_;
  std::vector<Assumption>& out_;
};

}  // namespace

std::vector<Assumption> assumptions_of(const Plan& plan, const Report& report) {
  std::vector<Assumption> assumptions;
  const RankStep& step = plan.step;
  const Collector collect(report, step.gpu, assumptions);
  collect.sequences(*plan.model);
  collect.cache(*plan.model, step.graph);
  collect.loss(*plan.model);
  collect.device();
  collect.search(*plan.model);
  collect.runtime(step.strategy);
  collect.slow_convolutions(step.micro_batches.schedules);
  collect.workspaces(step.micro_batches.schedules);
  collect.figures();
  return assumptions;
}

std::vector<std::string> header_words(const Report& report) {
  std::vector<std::string> words;
  for (const Assumption& a : report.assumptions)
    if (!a.words.empty()) words.push_back(a.words);
  for (std::string& extra : extra_words(report.run)) words.push_back(std::move(extra));
  return words;
}

}  // namespace gpuplan
