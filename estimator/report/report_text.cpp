#include <algorithm>
#include <span>

#include "estimator/base/amount.h"
#include "estimator/base/list_text.h"
#include "estimator/plan/assumptions.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/suggestions_text.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"
#include "estimator/report/timeline.h"
#include "estimator/report/writers.h"

namespace gpuplan {

namespace {

// The words and marks of one screen, in the style asked for.
class PlanScreen : public StyledScreen {
 public:
  PlanScreen(const Report& report, const TextStyle& style) : StyledScreen(style), report_(report) {}

  std::string headline() const;
  std::string extras() const;
  std::string verdict_block() const;
  std::string alive_at_peak() const;
  std::string timeline() const;
  std::string saving(const PhaseRow& row) const;
  std::string facts() const;
  std::string phases() const;
  std::string next() const;

 private:
  std::string part_label(Category category) const;
  std::string peak_place() const;
  std::string fit_words() const;
  std::string at_most_words() const;
  std::string failing_place(const WithinMemory& w) const;

  const Report& report_;
};

std::string PlanScreen::headline() const {
  const RunConfig& run = report_.run;
  std::string out = paint("1", report_.model.name) + dot() + std::string(name_of(run.mode)) + dot() + "batch " +
                    format_count(run.batch);
  if (!report_.layers.empty() && !report_.layers[0].input_shapes.empty()) {
    const auto first = report_.layers[0].input_shapes[0].sizes();
    std::vector<std::int64_t> sizes(first.begin(), first.end());
    const bool of_states = report_.rank && report_.rank->stage && report_.rank->strategy.pipelining.stage > 0;
    if (of_states && sizes.size() > 2) {
      sizes.resize(2);  // tokens, without their features
      if (run.tensor_plan.sequence) sizes[1] *= run.tensor_ranks;
    } else if (sizes.size() == 2 && (of_states || (report_.rank && report_.rank->strategy.is_megatron())))
      sizes[1] *= report_.rank->strategy.context;  // the graph is given the rank's tokens, or positions of them
    if (sizes.size() > 1 && sizes[0] == run.batch / run.micro_batches)
      out += (style_.unicode ? " × " : " x ") + format_sizes(std::span(sizes).subspan(1), style_.unicode);
  }
  out += dot() + precision_words(run);
  if (run.mode == Mode::train) out += dot() + std::string(name_of(run.optimizer));
  out += dot() + (report_.gpu ? report_.gpu->title : "no GPU named, A100-class rules");
  return out + dot() + "PyTorch " + version_text(run.pytorch) + (run.first_step ? ", first step" : "") + "\n" +
         extras();
}

std::string PlanScreen::extras() const {
  const std::string out = joined(header_words(report_), dot());
  return out.empty() ? "" : "  " + out + "\n";
}

std::string PlanScreen::peak_place() const {
  const std::string phase(name_of(report_.peak.phase));
  std::string out = "at " + phase;
  const std::string& where = report_.peak.layer.empty() ? report_.peak.op : report_.peak.layer;
  if (!where.empty() && where != phase) out += " of " + where;
  return out;
}

std::string PlanScreen::fit_words() const {
  const Verdict v = verdict(report_);
  if (!v.known) return "total device memory";
  const std::int64_t needs = report_.peak.device_bytes;
  const std::string share =
      v.usable_bytes > 0 ? format_count(needs / std::max<std::int64_t>(v.usable_bytes / 100, 1)) + " %, " : "";
  const std::string device = device_words(*report_.gpu, report_.margin);
  return StyledScreen::fit_words(v.fits, device, share, v.usable_bytes - needs);
}

// What may come on top, and whether the GPU has that much where it has the estimate.
std::string PlanScreen::at_most_words() const {
  std::string out;
  for (const AtMost::Term& t : report_.at_most->terms)
    if (t.device_bytes > 0)
      out += (out.empty() ? "" : ", ") + bytes(t.device_bytes) + (out.empty() ? " more of " : " of ") + t.what;
  const Verdict v = verdict(report_);
  const std::int64_t too_much = report_.at_most->device_bytes - v.usable_bytes;
  if (v.known && v.fits && too_much > 0) out += ": may exceed it by " + bytes(too_much);
  return out;
}

// Where torch.OutOfMemoryError is raised.
std::string PlanScreen::failing_place(const WithinMemory& w) const {
  std::string place = "requested while the model is built";
  if (w.step > 0) {
    const bool training = report_.run.mode == Mode::train;
    place = "requested " +
            (training ? "in step " + format_count(w.step) + ", " + std::string(name_of(w.phase)) : "in forward");
    if (const std::string& of = w.layer.empty() ? w.op : w.layer; !of.empty()) place += " of " + of;
  }
  return place + ", " + bytes(w.allocated_bytes) + " allocated";
}

std::string PlanScreen::verdict_block() const {
  const auto& peak = report_.peak;
  const std::int64_t cached = peak.reading.reserved_bytes - peak.reading.allocated_bytes;
  TextTable table({kLeft, kRight, kLeft});
  table.row({"Peak", bytes(peak.reading.allocated_bytes), peak_place()});
  if (report_.run.allocator == AllocatorKind::caching)
    table.row(
        {"+ cache", bytes(cached), "held by PyTorch's allocator, " + bytes(peak.reading.reserved_bytes) + " reserved"});
  table.row({"+ runtime", bytes(peak.context_bytes),
             "CUDA context and libraries, " + std::string(name_of(peak.context_confidence)) + " (--runtime)"});
  table.row({"Needs", bytes(peak.device_bytes), fit_words()});
  if (report_.at_most && report_.at_most->device_bytes != peak.device_bytes)
    table.row({"At most", bytes(report_.at_most->device_bytes), at_most_words()});
  if (const std::optional<WithinMemory>& w = report_.within_memory; w && w->runs)
    table.row(
        {"Runs", "", "only because the allocator releases its cache: " + retries_text(w->retries) + " in three steps"});
  else if (w)
    table.row({"Fails", bytes(w->tried_bytes), failing_place(*w)});
  return "\n" + table.text();
}

std::string PlanScreen::part_label(Category category) const {
  std::string name(name_of(category));
  if (category == Category::activation_gradients) return "activation gradients";
  if (category == Category::kv_cache) return "KV cache";
  if (category != Category::optimizer_state) return name;
  if (report_.run.master_weights) return "optimizer state";
  switch (report_.run.optimizer.kind) {
    case OptimizerKind::adam:
    case OptimizerKind::adamw:
    case OptimizerKind::nadam:
    case OptimizerKind::radam: return report_.run.optimizer.amsgrad ? "optimizer m, v, max v" : "optimizer m, v";
    default: return "optimizer state";
  }
}

std::string PlanScreen::alive_at_peak() const {
  std::vector<PeakPart> parts = report_.peak.parts;
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  std::erase_if(parts, [](const PeakPart& part) { return part.bytes == 0; });
  std::vector<std::int64_t> values;
  for (const PeakPart& part : parts) values.push_back(part.bytes);
  const std::int64_t total = report_.peak.reading.allocated_bytes;
  const ColumnUnit unit = column_unit(total, style_.units);
  const std::vector<std::int64_t> tenths = tenths_that_sum(values, unit.bytes), shares = shares_per_mille(values);
  const auto amount = [&](std::int64_t exact, std::int64_t rounded) {
    return style_.exact_bytes ? format_count(exact) : format_tenths(rounded);
  };
  const std::size_t columns = style_.width > 60 ? static_cast<std::size_t>(std::min(style_.width, 100)) - 56 : 0;
  TextTable table({kLeft, kRight, kRight, kLeft, kLeft});
  table.row({"alive at the peak", style_.exact_bytes ? "bytes" : std::string(unit.name), "%"});
  std::int64_t sum = 0, sum_tenths = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum += parts[i].bytes;
    sum_tenths += tenths[i];
    std::vector<std::string> row = {part_label(parts[i].category), amount(parts[i].bytes, tenths[i]),
                                    format_tenths(shares[i])};
    if (style_.interactive) row.push_back(bar(shares[i], columns));
    row.emplace_back(name_of(parts[i].confidence));
    table.row(row);
  }
  table.row({"total", amount(sum, sum_tenths), sum > 0 ? "100.0" : "0.0"});
  return "\n" + table.text();
}

std::string PlanScreen::timeline() const {
  if (!(style_.interactive || style_.timeline) || report_.timeline.empty()) return "";
  const std::size_t columns = static_cast<std::size_t>(std::clamp(style_.width, 24, 100)) - 4;
  return "\n  " + sparkline(report_.timeline, columns, style_.unicode) + "\n  " +
         phase_ruler(report_.timeline, columns, style_.unicode) + "\n" +
         (style_.timeline ? "  " +
                                peak_mark(report_.timeline, columns,
                                          "peak " + bytes(report_.peak.reading.allocated_bytes), style_.unicode) +
                                "\n"
                          : "");
}

std::string PlanScreen::saving(const PhaseRow& row) const {
  const std::int64_t more = row.peak.allocated_bytes - row.live.allocated_bytes;
  constexpr std::int64_t kOfMessages = 4096;  // what ranks tell each other is no larger
  return bytes(row.peak.allocated_bytes) + " at most" + dot() +
         (more > kOfMessages ? bytes(more) + " for what becomes whole, one after another"
          : more > 0         ? bytes(more) + " more than lives between steps"
                             : "no more than lives between steps");
}

std::string PlanScreen::facts() const {
  TextTable table({kLeft, kLeft});
  const auto& c = report_.compute;
  const std::int64_t batch = std::max<std::int64_t>(report_.run.batch, 1);
  const std::string step = report_.run.mode == Mode::train ? " per step" : " per batch";
  table.row(
      {"Compute", format_flops(c.step_flops) + step + dot() + format_flops(c.forward_flops / batch) +
                      (report_.rank && report_.rank->strategy.context > 1 ? " per part of a sample" : " per sample") +
                      " forward (1 MAC = 2 FLOP)"});
  for (const auto& [word, text] : time_rows(report_, dot())) table.row({word, text});
  const auto& model = report_.model;
  if (c.recompute_flops > 0)
    table.row({"Recompute",
               format_flops(c.recompute_flops) +
                   (model.checkpointed_blocks > 0 ? " recomputed in backward" + std::string(dot()) +
                                                        format_count(model.checkpointed_blocks) + " checkpointed blocks"
                                                  : " recomputed inside attention's backward")});
  if (report_.offload_bytes_to_host > 0 || report_.offload_bytes_from_host > 0)
    table.row({"Offload", bytes(report_.offload_bytes_to_host) + " to the host" + dot() +
                              bytes(report_.offload_bytes_from_host) + " back"});
  if (!report_.phases.empty() && report_.phases.back().phase == Phase::save)
    table.row({"Saves", saving(report_.phases.back())});
  if (report_.bytes.kv_cache > 0) table.row({"KV cache", bytes(report_.bytes.kv_cache)});
  std::string parameters = format_count(model.parameters) + dot() + bytes(report_.bytes.parameters);
  if (model.trainable_parameters != model.parameters)
    parameters += dot() + format_count(model.trainable_parameters) + " trainable";
  table.row({"Params", parameters});
  const std::span<const ModuleBytes> modules(report_.peak.modules);
  const auto most = modules.first(std::min<std::size_t>(modules.size(), 4));
  const std::string biggest =
      joined(most, dot(), [&](const ModuleBytes& module) { return module.name + " " + bytes(module.bytes); });
  if (!biggest.empty()) table.row({"Biggest", biggest});
  if (!report_.count_as.tool.empty())
    table.row({"Count", report_.count_as.tool + " would print " + format_count(report_.count_as.per_sample) + " " +
                            report_.count_as.unit + " for one sample"});
  const char* label = "Verified";
  for (std::size_t from = 0; from < model.verified.size(); label = "") {
    const std::size_t end = std::min(model.verified.find("; ", from), model.verified.size());
    table.row({label, model.verified.substr(from, end - from)});
    from = end + 2;
  }
  return "\n" + table.text();
}

std::string PlanScreen::phases() const {
  if (!style_.verbose || report_.phases.empty()) return "";
  TextTable table({kLeft, kLeft, kRight, kRight, kRight, kRight, kRight});
  table.row({"step", "phase", "live allocated", "reserved", "peak allocated", "reserved", "kernels"});
  for (const PhaseRow& row : report_.phases)
    table.row({row.steady ? "steady" : "first", std::string(name_of(row.phase)), bytes(row.live.allocated_bytes),
               bytes(row.live.reserved_bytes), bytes(row.peak.allocated_bytes), bytes(row.peak.reserved_bytes),
               format_count(row.kernels)});
  const auto& a = report_.allocator;
  return "\n" + table.text() + "\n  Allocator  " + format_count(a.segments) + " segments" + dot() +
         format_count(a.allocations) + " allocations" + dot() + bytes(a.inactive_split_bytes) +
         " in split remainders\n";
}

std::string PlanScreen::next() const {
  if (!style_.interactive) return "";
  const std::string& file = report_.model.file;
  TextTable table({kLeft, kLeft, kLeft});
  table.row({"next", "gpuplan layers " + file + " --sort mem", "memory and FLOPs of each module"});
  if (!report_.gpu) table.row({"", "gpuplan " + file + " --gpu NAME", "whether it fits a GPU"});
  if (report_.time && report_.time->communication_seconds == 0)
    table.row({"", "gpuplan layers " + file + " --gpu " + report_.gpu->name + " --time", "what would make it faster"});
  table.row({"", "gpuplan " + file + " --format json", "every number"});
  return "\n" + table.text();
}

}  // namespace

std::string device_words(const Gpu& gpu, const Margin& margin) {
  const bool keeps = margin.hundredths > 0;
  return gpu.title + " (" + format_count((keeps ? margin.usable_bytes : usable_bytes(gpu)) >> 20) + " MiB" +
         (keeps ? " less " + percentage_text(margin.hundredths) : "") + ")";
}

std::string report_text(const Report& report, const TextStyle& style, const std::vector<Suggestion>& suggestions) {
  const PlanScreen screen(report, style);
  const std::string verdict_and_suggestions =
      screen.verdict_block() + suggestions_text(suggestions, verdict(report).usable_bytes, style);
  if (style.brief) return verdict_and_suggestions.substr(1);
  return screen.headline() + verdict_and_suggestions + screen.alive_at_peak() + screen.timeline() + screen.facts() +
         screen.phases() + screen.next();
}

}  // namespace gpuplan
