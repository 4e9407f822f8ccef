#include <algorithm>
#include <cmath>

#include "estimator/base/integers.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/lengths_report.h"
#include "estimator/report/text_table.h"
#include "estimator/report/writers.h"

namespace gpuplan {
namespace {

constexpr std::size_t kShownSteps = 8;

class LengthsScreen : public StyledScreen {
 public:
  LengthsScreen(const LengthsReport& report, const TextStyle& style) : StyledScreen(style), r_(report) {}

  std::string headline() const {
    std::string out = paint("1", r_.model) + dot() + "train" + dot() + "batch " + format_count(r_.run.batch) + dot() +
                      precision_words(r_.run) + dot() + std::string(name_of(r_.run.optimizer)) + dot() +
                      (r_.gpu ? r_.gpu->title : "no GPU named, A100-class rules") + dot() + "PyTorch " +
                      version_text(r_.run.pytorch) + "\n";
    const std::string extras = joined(extra_words(r_.run), dot());
    if (!extras.empty()) out += "  " + extras + "\n";
    out += "  " + (r_.lengths.empty() ? evaluation_words() : count(r_.steps.size(), "step") + dot() + lengths_words());
    for (const std::string& assumed : r_.assumptions) out += "\n  assumed: " + assumed;
    return out + "\n";
  }

  std::string verdict_block() const {
    const std::size_t peak = r_.peak_step();
    const std::int64_t allocated = r_.steps[peak].peak.allocated_bytes, reserved = r_.reserved_bytes();
    TextTable table({kLeft, kRight, kLeft});
    table.row({"Peak", bytes(allocated),
               "at " + r_.peak_place + " in step " + number(peak) + ", " + batch_words(r_.batches[peak])});
    table.row(
        {"+ cache", bytes(reserved - allocated), "held by PyTorch's allocator, " + bytes(reserved) + " reserved"});
    table.row({"+ runtime", bytes(r_.context_bytes),
               "CUDA context and libraries, " + std::string(name_of(r_.context_confidence)) + " (--runtime)"});
    table.row({"Needs", bytes(r_.device_bytes()), fit_words()});
    if (r_.within_memory) tell_limit(*r_.within_memory, table);
    return "\n" + table.text();
  }

  // The last ones where there are many: those before are behind them.
  std::string growth() const {
    const std::vector<std::size_t> all = r_.growing_steps();
    const std::size_t left_out = all.size() > kShownSteps ? all.size() - kShownSteps : 0;
    TextTable table({kRight, kRight, kRight, kRight});
    table.row({"reserved grows in step", "tokens", "peak", "reserved"});
    for (std::size_t i = left_out; i < all.size(); ++i)
      table.row({number(all[i]), sizes(r_.batches[all[i]]), bytes(r_.steps[all[i]].peak.allocated_bytes),
                 bytes(r_.steps[all[i]].peak.reserved_bytes)});
    return "\n" + table.text() +
           (left_out == 0 ? "" : "  and in " + count(left_out, "step") + " before; --format csv has all steps\n");
  }

  // A row of steps that take the same.
  std::string steps() const {
    TextTable table({kLeft, kLeft, kRight, kRight, kRight});
    table.row({"step", "", "batch", "peak", "reserved"});
    for (std::size_t i = 0, end = 0; i < r_.steps.size(); i = end) {
      const StepBatch& batch = r_.batches[i];
      for (end = i + 1; end < r_.steps.size() && is_like(i, end); ++end) {
      }
      table.row({end == i + 1 ? number(i) : number(i) + "-" + number(end - 1),
                 batch.evaluates ? "evaluation" : "training", sizes(batch), bytes(r_.steps[i].peak.allocated_bytes),
                 bytes(r_.steps[i].peak.reserved_bytes)});
    }
    return "\n" + table.text();
  }

  std::string others() const {
    TextTable table({kLeft, kRight, kRight, kRight});
    table.row({"the same samples", "peak", "reserved", "padding"});
    for (const OtherLoop& other : r_.others)
      table.row({other.what, bytes(other.allocated_bytes), bytes(other.reserved_bytes), percent(other.padding)});
    return "\n" + table.text();
  }

 private:
  static std::string number(std::size_t step) { return format_count(static_cast<std::int64_t>(step) + 1); }
  static std::string count(std::size_t n, const std::string& one, const std::string& several = "") {
    return format_count(static_cast<std::int64_t>(n)) + " " + (n == 1 ? one : several.empty() ? one + "s" : several);
  }
  static std::string percent(double share) { return format_count(std::llround(100 * share)) + " %"; }

  bool is_like(std::size_t a, std::size_t b) const {
    const Reading &one = r_.steps[a].peak, &other = r_.steps[b].peak;
    return r_.batches[a] == r_.batches[b] && one.allocated_bytes == other.allocated_bytes &&
           one.reserved_bytes == other.reserved_bytes;
  }
  std::string evaluation_words() const {
    const auto evaluated = std::ranges::find_if(r_.batches, &StepBatch::evaluates);
    const auto steps = static_cast<std::size_t>(std::ranges::count_if(r_.batches, &StepBatch::evaluates));
    std::string out = count(r_.steps.size() - steps, "step") + " of training and an evaluation of " +
                      count(steps, "batch", "batches") + " of " + format_count(evaluated->samples);
    const EvaluationConfig& how = r_.run.evaluation;
    if (!how.keeps_logits) return out;
    out += dot() + "logits are kept";
    if (how.accumulation_steps > 0)
      out += ", and moved to the host after " +
             count(static_cast<std::size_t>(how.accumulation_steps), "batch", "batches");
    return out;
  }
  std::string sizes(const StepBatch& batch) const {
    const std::int64_t tokens = r_.tokens_of(batch);
    if (tokens == 0) return format_count(batch.samples);
    return format_count(batch.samples) + (style_.unicode ? " × " : " x ") + format_count(tokens);
  }
  std::string batch_words(const StepBatch& batch) const {
    const std::string part = !r_.lengths.empty() ? "" : batch.evaluates ? "of the evaluation, " : "of training, ";
    if (r_.tokens_of(batch) > 0) return part + sizes(batch) + " tokens";
    return part + count(static_cast<std::size_t>(batch.samples), "sample");
  }
  std::string lengths_words() const {
    std::vector<std::int64_t> sorted = r_.lengths;
    std::ranges::sort(sorted);
    return count(sorted.size(), "sample") + " of " + format_count(sorted.front()) + " to " +
           format_count(sorted.back()) + " tokens, median " + format_count(sorted[sorted.size() / 2]) + dot() +
           percent(r_.padding) + " padding" + dot() + r_.source;
  }
  std::string fit_words() const {
    if (!r_.gpu || r_.gpu->memory_bytes <= 0) return "total device memory";
    const std::int64_t usable = usable_bytes(*r_.gpu), needs = r_.device_bytes();
    const std::string share = format_count(needs / std::max<std::int64_t>(usable / 100, 1)) + " %, ";
    return StyledScreen::fit_words(r_.fits(), device_words(*r_.gpu, r_.margin), share, usable - needs);
  }
  void tell_limit(const WithinMemory& w, TextTable& table) const {
    if (w.runs) {
      table.row({"Runs", "",
                 "only because the allocator releases its cache: " + retries_text(w.retries) + " in " +
                     count(r_.steps.size(), "step")});
      return;
    }
    std::string place = "requested while the model is built";
    if (w.step > 0) {
      const auto step = static_cast<std::size_t>(w.step - 1);
      place = "requested in step " + number(step) + ", " + batch_words(r_.batches[step]) + ", " +
              std::string(name_of(w.phase));
      if (const std::string& of = w.layer.empty() ? w.op : w.layer; !of.empty() && of != name_of(w.phase))
        place += " of " + of;
    }
    table.row({"Fails", bytes(w.tried_bytes), place + ", " + bytes(w.allocated_bytes) + " allocated"});
  }

  const LengthsReport& r_;
};

}  // namespace

std::size_t LengthsReport::peak_step() const {
  const auto allocated = [](const StepReading& s) { return s.peak.allocated_bytes; };
  return static_cast<std::size_t>(std::ranges::max_element(steps, {}, allocated) - steps.begin());
}

std::int64_t LengthsReport::reserved_bytes() const {
  std::int64_t most = 0;
  for (const StepReading& s : steps) most = std::max(most, s.peak.reserved_bytes);
  return most;
}

bool LengthsReport::fits() const { return !gpu || gpu->memory_bytes <= 0 || device_bytes() <= usable_bytes(*gpu); }

std::vector<std::size_t> LengthsReport::growing_steps() const {
  std::vector<std::size_t> growing;
  std::int64_t most = -1;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].peak.reserved_bytes <= most) continue;
    most = steps[i].peak.reserved_bytes;
    growing.push_back(i);
  }
  return growing;
}

std::string lengths_text(const LengthsReport& report, const TextStyle& style) {
  const LengthsScreen screen(report, style);
  if (style.brief) return screen.verdict_block().substr(1);
  const std::string begin = screen.headline() + screen.verdict_block();
  return begin + (report.lengths.empty() ? screen.steps() : screen.growth() + screen.others());
}

std::string lengths_csv(const LengthsReport& report) {
  std::string out =
      "step,samples,tokens,requested_bytes,allocated_bytes,reserved_bytes,peak_requested_bytes,peak_allocated_bytes,"
      "peak_reserved_bytes,evaluates\n";
  for (std::size_t i = 0; i < report.steps.size(); ++i) {
    const StepReading& s = report.steps[i];
    out += std::to_string(i + 1);
    for (const std::int64_t n : {report.batches[i].samples, report.tokens_of(report.batches[i]), s.live.requested_bytes,
                                 s.live.allocated_bytes, s.live.reserved_bytes, s.peak.requested_bytes,
                                 s.peak.allocated_bytes, s.peak.reserved_bytes})
      out += "," + std::to_string(n);
    out += report.batches[i].evaluates ? ",1\n" : ",0\n";
  }
  return out;
}

}  // namespace gpuplan
