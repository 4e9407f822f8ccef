#include "estimator/report/several_gpus.h"

#include <array>
#include <string>
#include <vector>

#include "estimator/base/list_text.h"
#include "estimator/distributed/rank_share.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"

namespace gpuplan {
namespace {

class GpusScreen : public StyledScreen {
 public:
  GpusScreen(const Report& report, const TextStyle& style)
      : StyledScreen(style), report_(report), rank_(*report.rank) {}

  std::string text() const {
    const Strategy& s = rank_.strategy;
    std::string out = "  " + paint("1", title()) + dot() + which_rank() + dot() + batch() + "\n";
    if (rank_.stage) out += stage();
    if (s.data == DataParallel::fsdp) out += "  gathers  " + gathers() + "\n";
    if (s.is_deepspeed() && !by_definition(report_.run, s)) out += buckets();
    if (s.experts > 1) out += experts();
    if (s.context > 1) out += context();
    if (rank_.strategy.is_megatron()) out += megatron();
    out += "  holds    " + bytes(rank_.states.parameters) + " of parameters";
    if (report_.run.mode == Mode::train && s.is_deepspeed() && s.offloads)
      out += dot() + "gradients and optimizer state on the host";
    else if (report_.run.mode == Mode::train)
      out += dot() + bytes(rank_.states.gradients) + " of gradients" + dot() + bytes(rank_.states.optimizer_state) +
             " of optimizer state" + (s.offloads ? dot() + "on the host" : "");
    out += "\n";
    if (rank_.nccl.planned > 0) out += nccl();
    return out + scales() + slowest() + sends() + every_rank();
  }

 private:
  std::string nccl() const {
    const NcclBuffers& b = rank_.nccl;
    return "  NCCL     " + bytes(b.planned) +
           " of buffers, included in the runtime above, assumed (--runtime): " + bytes(b.least) + " to " +
           bytes(b.most) + " by NCCL " + std::string(nccl_of(report_.run.pytorch).name) + "\n";
  }
  std::string experts() const {
    const Strategy& s = rank_.strategy;
    const std::int64_t have = s.group(true).ranks * s.replicas;
    return "  experts  1 of " + format_count(s.experts) + " parts, which " +
           (have == 1 ? "no other rank has" : format_count(have) + " ranks have") + dot() + "this rank is sent " +
           (s.expert_load == 1 ? "as many tokens as it sends"
                               : format_figure(s.expert_load) + " times as many tokens as it sends") +
           ", assumed (--routing)\n";
  }
  std::string context() const {
    const std::int64_t tokens = rank_.sample_tokens / rank_.strategy.context;
    return "  context  " + format_count(tokens) + " of " + format_count(rank_.sample_tokens) +
           " tokens of each sample" + dot() + (balances_context(tokens) ? "front and end" : "in a row") + "\n";
  }
  // Those of tensor parallelism are alike.
  std::string which_rank() const {
    const Strategy& s = rank_.strategy;
    if (rank_.stage) return "rank " + format_count(s.global_rank()) + " of " + format_count(s.gpus);
    if (s.data == DataParallel::none && s.context == 1) return "each of " + format_count(s.gpus) + " ranks";
    return "rank " + format_count(s.rank) + " of " + format_count(s.ranks()) + worst();
  }
  std::string worst() const {
    if (rank_.differing < 2) return "";
    const std::string of =
        rank_.compared == rank_.differing ? "" : " of " + format_count(rank_.compared) + " that were compared";
    return ", which needs the most" + of;
  }
  std::string batch() const {
    const Strategy& s = rank_.strategy;
    const std::string each = "batch " + format_count(report_.run.batch);
    return s.ranks() == 1 && (s.tensor > 1 || rank_.stage)
               ? each
               : each + " each, " + format_count(report_.run.batch * s.sample_groups()) + " in total";
  }
  // "blocks 4 to 7 of 16", counted from 0 as their names are.
  std::string stage() const {
    const Strategy& s = rank_.strategy;
    const StagePart& part = *rank_.stage;
    const bool several = s.pipelining.stages_each > 1;
    std::string numbers, blocks;
    for (const StagePart::Stage& stage : part.stages) {
      const std::int64_t last = stage.first_block + stage.blocks - 1;
      const std::string between = numbers.empty() ? "" : stage.number == part.stages.back().number ? " and " : ", ";
      numbers += between + format_count(stage.number);
      blocks += between + (stage.blocks == 1 ? "" : format_count(stage.first_block) + " to ") + format_count(last);
    }
    const bool one = !several && part.stages.front().blocks == 1;
    std::string out = std::string("  ") + (several ? "stages   " : "stage    ") + numbers + " of " +
                      format_count(s.stages()) + dot() + (one ? "block " : "blocks ") + blocks + " of " +
                      format_count(part.all_blocks) + dot() + "up to " + format_count(part.in_flight) + " of " +
                      format_count(report_.run.micro_batches * s.pipelining.stages_each) +
                      (several ? " forwards held, of " + format_count(report_.run.micro_batches) + " micro-batches\n"
                               : " micro-batches in flight\n");
    if (part.stages.back().number + 1 == s.stages() && s.pipelining.returns_outputs)
      out += "  keeps    the outputs of all micro-batches until the next step (outputs=drop)\n";
    return out;
  }
  std::string title() const {
    if (rank_.stage) return pipeline_title();
    const Strategy& s = rank_.strategy;
    const bool deepspeed = s.is_deepspeed() && !by_definition(report_.run, s);
    const std::string stage = s.data == DataParallel::zero3 ? "3" : s.partitions_gradients ? "2" : "1";
    const std::string data = deepspeed ? "DeepSpeed ZeRO-" + stage : std::string(title_of(s));
    std::vector<std::string> parts;
    if (s.data != DataParallel::none) parts.push_back(data);
    if (s.experts > 1) parts.push_back("expert parallel " + format_count(s.experts));
    if (s.context > 1) parts.push_back("context parallel " + format_count(s.context));
    if (s.tensor > 1) parts.push_back(tensor_title());
    return joined(parts, dot());
  }
  std::string tensor_title() const {
    const Strategy& s = rank_.strategy;
    const char* const plan = s.tensor_plan.loss       ? ", with sequence and loss parallel"
                             : s.tensor_plan.sequence ? ", with sequence parallel"
                                                      : "";
    return "tensor parallel " + format_count(s.tensor) + plan;
  }
  std::string pipeline_title() const {
    const Strategy& s = rank_.strategy;
    return "pipeline of " + format_count(s.stages()) + " stages, " + std::string(title_of(s.pipelining.schedule)) +
           (s.tensor == 1 ? "" : dot() + tensor_title()) +
           (s.data == DataParallel::none ? "" : dot() + std::string(title_of(s.data))) +
           (s.context == 1 ? "" : dot() + "context parallel " + format_count(s.context));
  }
  // Stage 3 has one, and says how much it gathers ahead and keeps.
  std::string buckets() const {
    const Strategy& s = rank_.strategy;
    const bool divides = s.data == DataParallel::zero3;
    const PartitionSettings& p = s.partition;
    return "  buckets  " + std::string(s.overlaps_reductions && !divides ? "2 of " : "") +
           bytes(s.reduce_bucket_elements * 2) + " for gradients" + dot() + format_count(s.reduce_bucket_elements) +
           " elements (reduce_bucket_size)\n" +
           (divides ? "  gathers  " + format_count(p.prefetch_elements) + " elements ahead, up to " +
                          format_count(p.live_elements) + "\n  keeps    what is needed within " +
                          format_count(p.reuse_elements) + " elements" +
                          (s.made_partitioned ? dot() + "made under zero.Init" : "") + "\n" +
                          // ParameterCoordinator::fetch(); the most of 104 recorded ranks is 4.1 % of a step's peak.
                          "  varies   from run to run, by up to 8 % of what is reserved: a module's parameters come in "
                          "the order of a Python set\n"
                    : "");
  }
  std::string gathers() const {
    const Strategy& s = rank_.strategy;
    const std::string blocks = rank_.wrapped == 0 ? "the whole model at once: no block is wrapped"
                               : rank_.wrapped == 1
                                   ? "1 block and the rest by themselves"
                                   : format_count(rank_.wrapped) + " blocks and the rest by themselves";
    const std::string ends = !s.wraps_ends || rank_.wrapped == 0 ? ""
                             : s.experts > 1 ? " (experts, the embedding and the head by themselves, too)"
                                             : " (the embedding and the head, too, as Accelerate)";
    const std::string types =
        (s.param_type ? dot() + "in " + std::string(name_of(*s.param_type)) : "") +
        (s.reduce_type ? dot() + "gradients reduced in " + std::string(name_of(*s.reduce_type)) : "");
    return blocks + ends + types + kept() + (s.keeps_last_block ? dot() + "the last one kept until backward" : "") +
           (s.reshards_root ? dot() + "the root gathered again" : "") +
           (s.flat && s.shards() == 1 ? dot() + "nothing is shared (strategy=none)"
            : s.replicas > 1 ? dot() + format_count(s.replicas) + " replicas of " + format_count(s.shards()) + " shards"
                             : "") +
           (s.reduces_last && !rank_.stage ? dot() + "reduced with the last micro-batch" : "");
  }
  std::string megatron() const {
    const MegatronSettings& m = rank_.strategy.megatron;
    return std::string("  runs     ") + (m.distributed_optimizer ? "distributed optimizer" : "whole optimizer") +
           dot() + "main gradients in " + (m.fp32_gradients ? "fp32" : "bf16") +
           (m.overlaps_reductions ? dot() + "reductions overlapped" : "") +
           (m.overlaps_gathers ? dot() + "gathers overlapped" : "") +
           (m.transformer_engine ? dot() + "Transformer Engine" : "") +
           (m.sequence_parallel ? dot() + "sequence parallel" : "") + "\n";
  }
  std::string kept() const {
    if (rank_.stage)
      return dot() + (rank_.strategy.reshard_after_forward ? "" : "kept, and ") +
             "reduced once all micro-batches are through";
    if (rank_.strategy.reshard_after_forward || (rank_.strategy.flat && rank_.strategy.shards() == 1)) return "";
    return dot() + "kept until backward (" + (rank_.strategy.flat ? "strategy=grad-op" : "--no-reshard") + ")";
  }

  // Ranks differ by little.
  static std::string mebibytes(std::int64_t bytes) {
    const std::int64_t tenths = (bytes * 10 + (std::int64_t{1} << 19)) >> 20;
    return format_count(tenths / 10) + "." + std::to_string(tenths % 10);
  }
  std::string every_rank() const {
    if (rank_.every.empty()) return "";
    TextTable table({kLeft, kRight, kRight, kRight});
    table.row({"ranks", "MiB allocated", "reserved", "needs"});
    for (const EveryRank& r : rank_.every) {
      std::string ranks = format_count(r.first);
      if (r.ranks > 1) ranks += " to " + format_count(r.last);
      if (r.ranks != r.last - r.first + 1) ranks += ", " + format_count(r.ranks) + " of them";
      table.row({ranks, mebibytes(r.allocated_bytes), mebibytes(r.reserved_bytes), mebibytes(r.device_bytes)});
    }
    return "\n" + table.text();
  }

  // What the GPUs do together, and what of their throughput is left.
  std::string scales() const {
    if (!rank_.time || rank_.time->step.seconds() <= 0) return "";
    const RankTime& time = *rank_.time;
    const double samples = static_cast<double>(report_.run.batch * rank_.strategy.sample_groups());
    const std::string together =
        "  scales   " + format_figure(samples / time.step.seconds()) +
        (report_.run.generation.part == Generation::Part::decode ? " tokens/s" : " samples/s") + " in total" + dot();
    if (rank_.stage)
      return together + format_figure(100 * (1 - time.step.bubble_seconds / time.step.seconds())) +
             " % of the step this " + (rank_.strategy.pipelining.stages_each > 1 ? "rank" : "stage") +
             " does not wait for others\n";
    if (rank_.strategy.tensor > 1 || rank_.strategy.context > 1)  // one GPU alone has not all of a layer, or a sample
      return together + format_figure(100 * (1 - time.step.communication_seconds / time.step.seconds())) +
             " % of the step is not communication\n";
    return together + format_figure(100 * time.efficiency()) + " % scaling efficiency" + dot() +
           "one GPU alone takes " + format_seconds(time.alone_seconds) + " for the same batch per GPU" +
           (time.efficiency() > 1 ? " and the whole optimizer step" : "") + "\n";
  }

  std::string slowest() const {
    if (!rank_.time || rank_.time->slower <= 1) return "";
    return "  slowest  of " + format_count(rank_.strategy.gpus) + " GPUs, which the others wait for, computes " +
           format_figure(100 * (rank_.time->slower - 1)) + " % longer than one alone, assumed\n";
  }

  std::string sends() const {
    if (rank_.communication.empty()) return "";
    TextTable table({kLeft, kLeft, kRight, kRight, kRight});
    std::vector<std::string> heads = {"communication", "", "sent by a rank", "on the link"};
    if (rank_.time) heads.emplace_back("exposed");
    table.row(heads);
    double all = 0;
    bool known = true;
    for (std::size_t i = 0; i < rank_.communication.size(); ++i) {
      const CommunicationRow& row = rank_.communication[i];
      known = known && row.seconds.has_value();
      all += row.seconds.value_or(0);
      std::vector<std::string> cells = {std::string(row.what), std::string(name_of(row.collective)),
                                        bytes(row.sent_bytes),
                                        row.seconds ? format_seconds(*row.seconds) : "not known"};
      if (rank_.time) cells.push_back(format_seconds(rank_.time->exposed[i]));
      table.row(cells);
    }
    if (rank_.time && rank_.time->copy_seconds > 0)
      table.row({"copies to and from buckets", "", "", "", format_seconds(rank_.time->copy_seconds)});
    std::vector<std::string> sum = {"total", "", "", format_seconds(all)};
    if (rank_.time) sum.push_back(format_seconds(rank_.time->step.communication_seconds));
    if (known) table.row(sum);
    return "\n" + table.text() +
           (known ? "" : "  the link is not known: give --gpu, and --network for more than one node\n");
  }

  const Report& report_;
  const RankShare& rank_;
};

}  // namespace

std::string_view title_of(PipelineSchedule schedule) {
  constexpr std::array<std::string_view, 8> titles = {"formulas",         "GPipe",      "1F1B",
                                                      "interleaved 1F1B", "looped BFS", "interleaved zero bubble",
                                                      "ZBV zero bubble",  "DualPipeV"};
  return titles[static_cast<std::size_t>(schedule)];
}

std::string_view title_of(const Strategy& strategy) { return strategy.flat ? "FSDP1" : title_of(strategy.data); }

std::string_view title_of(DataParallel kind) {
  constexpr std::array<std::string_view, 7> titles = {"one GPU", "DDP",   "ZeRO-1",       "ZeRO-2",
                                                      "ZeRO-3",  "FSDP2", "Megatron-core"};
  return titles[static_cast<std::size_t>(kind)];
}

std::string several_gpus_text(const Report& report, const TextStyle& style) { return GpusScreen(report, style).text(); }

}  // namespace gpuplan
