#include "estimator/report/stages_text.h"

#include <algorithm>

#include "estimator/integers.h"
#include "estimator/report/run_names.h"
#include "estimator/report/text_table.h"

namespace gpuplan {
namespace {

constexpr auto kLeft = TextTable::Align::left, kRight = TextTable::Align::right;

class Screen : public StyledScreen {
 public:
  Screen(const StagesReport& report, const TextStyle& style) : StyledScreen(style), r_(report) {}

  std::string headline() const {
    const Strategy& s = r_.strategy;
    const std::int64_t parts = r_.run.micro_batches;
    // 1F1B (arXiv:2104.04473, section 2.2): pipeline - 1 of its parts + pipeline - 1 slots of time are a bubble.
    std::string out = paint("1", r_.model) + dot() + "train" + dot() + "batch " + format_count(r_.run.batch) + dot() +
                      std::string(name_of(r_.run.precision)) + " with fp32 master copies" + dot() +
                      std::string(name_of(r_.run.optimizer));
    if (r_.gpu) out += dot() + r_.gpu->title;
    return out + "\n  tensor " + format_count(s.tensor) + dot() + "pipeline " + format_count(s.pipeline) + dot() +
           "data " + format_count(s.ranks()) + " of " + format_count(s.gpus) + " GPUs" + dot() + format_count(parts) +
           " micro-batches, idle " + format_tenths(in_tenths((s.pipeline - 1) * 100, parts + s.pipeline - 1)) +
           " % of the time\n\n";
  }

  std::string verdict_block() const {
    const std::size_t fullest = r_.fullest();
    TextTable table({kLeft, kRight, kLeft});
    table.row({"Peak", bytes(r_.stages[fullest].bytes()),
               "of a rank of stage " + format_count(static_cast<std::int64_t>(fullest)) +
                   (r_.stages.size() > 1 ? ", which takes most" : "")});
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
    table.row({"stage", "parameters", "states", "in flight", "activations", "in all"});
    for (std::size_t i = 0; i < r_.stages.size(); ++i) {
      const StageRow& row = r_.stages[i];
      table.row({format_count(static_cast<std::int64_t>(i)), format_count(row.parameters), bytes(row.state_bytes),
                 format_count(row.in_flight), bytes(row.activation_bytes), bytes(row.bytes())});
    }
    return "\n" + table.text() + "  of one rank, by Megatron-LM's formulas; what PyTorch caches comes on top\n";
  }

 private:
  std::string fit_words() const {
    if (!r_.gpu || r_.gpu->memory_bytes <= 0) return "device memory in all";
    const std::int64_t usable = usable_bytes(*r_.gpu), needs = r_.device_bytes();
    const std::string device = r_.gpu->title + " (" + format_count(usable >> 20) + " MiB): ";
    const std::string mark = style_.unicode ? (r_.fits() ? "✔" : "✖") : (r_.fits() ? "[ok]" : "[no]");
    if (!r_.fits()) return paint("31", mark + " does not fit") + " " + device + bytes(needs - usable) + " too much";
    return paint("32", mark + " fits") + " " + device + format_count(needs / std::max<std::int64_t>(usable / 100, 1)) +
           " %, " + bytes(usable - needs) + " free";
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
  const Screen screen(report, style);
  if (style.brief) return screen.verdict_block();
  return screen.headline() + screen.verdict_block() + screen.table();
}

}  // namespace gpuplan
