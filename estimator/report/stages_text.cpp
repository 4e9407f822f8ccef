#include "estimator/report/stages_text.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "estimator/base/integers.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"

namespace gpuplan {
namespace {

class StagesScreen : public StyledScreen {
 public:
  StagesScreen(const StagesReport& report, const TextStyle& style) : StyledScreen(style), r_(report) {}

  std::string headline() const {
    const Strategy& s = r_.strategy;
    const std::int64_t parts = r_.run.micro_batches;
    std::string out = paint("1", r_.model) + dot() + "train" + dot() + "batch " + format_count(r_.run.batch) + dot() +
                      std::string(name_of(r_.run.precision)) + " with fp32 master copies" + dot() +
                      std::string(name_of(r_.run.optimizer));
    if (r_.gpu) out += dot() + r_.gpu->title;
    out += "\n  tensor " + format_count(s.tensor) + dot() + "pipeline " + format_count(s.pipeline) + dot() + "data " +
           format_count(s.ranks()) + " of " + format_count(s.gpus) + " GPUs" + dot() + format_count(parts) +
           (parts == 1 ? " micro-batch" : " micro-batches");
    // 1F1B (arXiv:2104.04473, section 2.2): of stages of equal length, pipeline - 1 of its parts + pipeline - 1 slots
    // of time are a bubble. Where the time is known it says more.
    if (s.pipeline > 1 && !r_.time)
      out += ", pipeline bubble " + format_tenths(in_tenths((s.pipeline - 1) * 100, parts + s.pipeline - 1)) +
             " % of the time";
    return out + "\n\n";
  }

  std::string verdict_block() const {
    const std::size_t fullest = r_.fullest();
    TextTable table({kLeft, kRight, kLeft});
    table.row({"Peak", bytes(r_.stages[fullest].bytes()),
               "per rank of stage " + format_count(static_cast<std::int64_t>(fullest)) +
                   (r_.stages.size() > 1 ? ", the largest" : "")});
    table.row({"+ runtime", bytes(r_.context_bytes),
               runtime() + ", " + std::string(name_of(r_.context_confidence)) + " (--runtime)"});
    table.row({"Needs", bytes(r_.device_bytes()), fit_words()});
    return table.text();
  }

  std::string runtime() const {
    return r_.nccl_bytes == 0 ? "CUDA context and libraries"
                              : "CUDA context, libraries and " + bytes(r_.nccl_bytes) + " of NCCL's buffers";
  }

  std::string table() const {
    TextTable table({kRight, kRight, kRight, kRight, kRight, kRight});
    table.row({"stage", "parameters", "model states", "in flight", "activations", "total"});
    for (std::size_t i = 0; i < r_.stages.size(); ++i) {
      const StageRow& row = r_.stages[i];
      table.row({format_count(static_cast<std::int64_t>(i)), format_count(row.parameters), bytes(row.state_bytes),
                 format_count(row.in_flight), bytes(row.activation_bytes), bytes(row.bytes())});
    }
    return "\n" + table.text() +
           "  per rank, by Megatron-LM's formulas; in flight: micro-batches; PyTorch's cache is not included\n";
  }

  std::string time() const {
    if (!r_.no_time.empty()) return "\n  Time     not known: " + r_.no_time + "\n";
    if (!r_.time) return "";
    const TransformerTime& t = *r_.time;
    const auto batch = static_cast<double>(r_.run.batch);
    std::string out = "\n  Time     " + format_seconds(t.step) + " per step" + (r_.fits() ? "" : ", if it fit") +
                      dot() + format_figure(batch / t.step) + " samples/s" + dot() +
                      format_figure(batch * static_cast<double>(r_.transformer.sequence) / t.step) +
                      " tokens/s in total" + dot() + (r_.measured ? "from measurements of this GPU" : "modelled") +
                      "\n";
    out += parts();
    const double flops = training_flops(r_.transformer, r_.run.batch, RecomputeMode::none) / t.step /
                         static_cast<double>(r_.strategy.gpus);
    out += "           " + format_flops_per_second(flops) + " per GPU, " + format_figure(100 * flops / r_.peak_flops) +
           " % MFU (peak " + format_flops_per_second(r_.peak_flops) + ")\n";
    return out + "  Scales   " + format_figure(100 * t.efficiency()) + " % scaling efficiency" + dot() +
           "one GPU with enough memory would take " + format_seconds(t.alone_seconds) + "\n" +
           (t.slower > 1 ? "  Slowest  of " + format_count(t.gpus) + " GPUs, which the others wait for, computes " +
                               format_figure(100 * (t.slower - 1)) + " % longer than one alone, assumed\n"
                         : "");
  }

  std::string sends() const {
    if (r_.with_micro_batches.empty() && r_.after_backward.empty()) return "";
    TextTable table({kLeft, kLeft, kRight, kRight});
    table.row({"communication", "", "sent by a rank", "exposed"});
    bool known = true;
    for (const auto* rows : {&r_.with_micro_batches, &r_.after_backward})
      for (const CommunicationRow& row : *rows) {
        known = known && row.seconds.has_value();
        table.row({std::string(row.what), std::string(name_of(row.collective)), bytes(row.sent_bytes),
                   row.seconds ? format_seconds(*row.seconds) : "not known"});
      }
    if (known && r_.time) table.row({"total", "", "", format_seconds(r_.time->sends + r_.time->after)});
    return "\n" + table.text() + whose() +
           (known ? "" : "  the link is not known: give --gpu, and --network for more than one node\n");
  }

 private:
  // Where the time of a step goes: work, then waiting. Shares below 0.05 % are left out.
  std::string parts() const {
    const TransformerTime& t = *r_.time;
    return shares({{"layers' GEMMs", t.products},
                   {"layers' other kernels", t.element_wise},
                   {"head", t.head},
                   {"optimizer", t.optimizer}}) +
           shares({{"launch overhead", t.host},
                   {"exposed communication", t.sends + t.after},
                   {"pipeline bubble", t.idle}});
  }

  std::string shares(std::initializer_list<std::pair<const char*, double>> parts) const {
    const double step = r_.time->step;
    std::string out;
    for (const auto& [name, seconds] : parts)
      if (seconds > 0.0005 * step)
        out += (out.empty() ? "           " : dot()) + name + " " + format_seconds(seconds) + " (" +
               format_figure(100 * seconds / step) + " %)";
    return out.empty() ? "" : out + "\n";
  }

  std::string whose() const {
    if (r_.strategy.pipeline == 1) return "";
    const std::string stage = "stage " + format_count(r_.sending_stage);
    const std::string slowest = r_.time ? ", the slowest" : "";
    return "  of " + stage + slowest +
           (r_.after_backward.empty() ? "" : "; gradients and parameters: of stage 0, whose backward ends last") + "\n";
  }

  std::string fit_words() const {
    if (!r_.gpu || r_.gpu->memory_bytes <= 0) return "total device memory";
    const std::int64_t usable = usable_bytes(*r_.gpu), needs = r_.device_bytes();
    const std::string share = format_count(needs / std::max<std::int64_t>(usable / 100, 1)) + " %, ";
    return StyledScreen::fit_words(r_.fits(), device_words(*r_.gpu, r_.margin), share, usable - needs);
  }

  const StagesReport& r_;
};

}  // namespace

std::size_t StagesReport::fullest() const {
  return static_cast<std::size_t>(std::ranges::max_element(stages, {}, &StageRow::bytes) - stages.begin());
}

std::int64_t StagesReport::device_bytes() const { return checked_add(stages[fullest()].bytes(), context_bytes); }

bool StagesReport::fits() const { return !gpu || gpu->memory_bytes <= 0 || device_bytes() <= usable_bytes(*gpu); }

std::string stages_text(const StagesReport& report, const TextStyle& style) {
  const StagesScreen screen(report, style);
  if (style.brief) return screen.verdict_block();
  return screen.headline() + screen.verdict_block() + screen.table() + screen.time() + screen.sends();
}

}  // namespace gpuplan
