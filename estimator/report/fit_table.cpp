#include "estimator/report/fit_table.h"

#include <algorithm>
#include <cmath>

#include "estimator/base/number_text.h"
#include "estimator/distributed/nccl_memory.h"
#include "estimator/plan/run_names.h"
#include "estimator/report/gpu_list.h"
#include "estimator/report/instance_list.h"
#include "estimator/report/several_gpus.h"
#include "estimator/report/suggestions_text.h"
#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"
#include "estimator/search/device_bytes.h"

namespace gpuplan {
namespace {

using enum TextTable::Align;

// "2026-07-20", and of ">=2025-09-12, <=2026-11 (undated commit)" ">=2025-09-12, undated".
std::string price_day(const std::string& text) {
  const std::optional<Day> day = oldest_day(text);
  if (!day) return "";
  return text.find("undated") == std::string::npos ? date_text(*day) : ">=" + date_text(*day) + ", undated";
}

std::int64_t percent(std::int64_t part, std::int64_t whole) { return part / std::max<std::int64_t>(whole / 100, 1); }

class FitScreen : public StyledScreen {
 public:
  FitScreen(const FitReport& report, const TextStyle& style)
      : StyledScreen(style), report_(report), question_(report.question), rows_(report.fit.rows) {}

  std::string headline() const;
  TextTable table() const;
  std::string left_out() const;
  std::string fits_again() const;
  std::string untimed() const;
  std::string not_rented() const;
  std::string note() const;
  std::string nccl() const;
  std::string limit() const;
  std::string prices(Day today) const;
  std::string no_fit() const;

 private:
  bool is_faster(const FitRow& row) const;
  bool shown(const FitRow& row) const { return !report_.all_gpus || (row.fits && row.refused.empty()); }
  bool any(auto what) const {
    return std::ranges::any_of(rows_, [&](const FitRow& row) { return shown(row) && what(row); });
  }
  std::string mark(bool good) const { return paint(good ? "32" : "31", mark_of(good, style_)); }
  bool timed() const {
    return any([](const FitRow& row) { return row.step_seconds.has_value(); });
  }
  bool shared() const {
    return any([](const FitRow& row) { return row.strategy.shares(); });
  }
  // "l4", "8 × l4"
  std::string gpu_cell(const FitRow& row) const {
    const std::int64_t n = row.strategy.gpus;
    return (n > 1 ? format_count(n) + (style_.unicode ? " × " : " x ") : "") + row.gpu.name;
  }
  std::string instance_cell(const FitRow& row) const;
  // A step of decoding makes a token of each sample.
  std::string things() const {
    return question_.run.generation.part == Generation::Part::decode ? "tokens" : "samples";
  }
  std::string margin_words() const {
    return question_.margin > 0 ? " less a margin of " + number_text(100 * question_.margin) + " %" : "";
  }
  std::vector<std::string> heading() const;
  std::vector<std::vector<std::string>> lines() const;
  std::vector<std::string> cells(const FitRow& row) const;
  std::string batch_cell(const FittingBatch& batch) const {
    return batch.samples > 0 ? format_count(batch.samples) : "-";
  }

  const FitReport& report_;
  const FitQuestion& question_;
  const std::vector<FitRow>& rows_;
};

std::string FitScreen::headline() const {
  const RunConfig& run = question_.run;
  std::string out = paint("1", report_.model) + dot() + std::string(name_of(run.mode));
  if (question_.batch) out += dot() + "batch " + format_count(*question_.batch);
  out += dot() + precision_words(run);
  if (run.mode == Mode::train) out += dot() + std::string(name_of(run.optimizer));
  out += dot() + "PyTorch " + version_text(run.pytorch);
  for (const std::string& words : extra_words(run)) out += dot() + words;
  if (const std::string settings = fsdp_words(question_.strategy); !settings.empty())
    out += dot() + "FSDP2 " + settings;
  if (question_.strategy.experts > 1) out += dot() + "expert parallel " + format_count(question_.strategy.experts);
  if (report_.one_is_not_enough) out += "\n  one GPU is not enough: several share the batch equally";
  return out + "\n\n";
}

std::vector<std::string> FitScreen::heading() const {
  std::vector<std::string> words = {"GPU", "usable MiB"};
  if (shared()) words.insert(words.begin() + 1, "shared by");
  if (question_.batch) words.push_back("batch " + format_count(*question_.batch));
  words.insert(words.end(), {"largest batch", "needs", "power of two", "needs"});
  if (any([](const FitRow& row) { return row.usd.has_value(); }))
    words.insert(words.end(), {"USD/h", "instance", "price date"});
  if (timed()) words.push_back(things() + "/s");
  if (timed() && shared()) words.emplace_back("scaling");
  if (timed()) words.push_back("USD/1M " + things());
  if (timed() && question_.samples) words.insert(words.end(), {"epoch", "USD/epoch"});
  if (timed() && question_.samples && question_.epochs != 1) words.insert(words.end(), {"run", "USD/run"});
  words.emplace_back("");
  return words;
}

std::vector<std::string> FitScreen::cells(const FitRow& row) const {
  std::vector<std::string> words = {gpu_cell(row), format_count(row.usable_bytes >> 20)};
  if (shared())
    words.insert(words.begin() + 1, row.strategy.shares() ? std::string(title_of(row.strategy.data)) : std::string());
  if (question_.batch)
    words.push_back(row.asked_bytes > 0
                        ? mark(row.fits) + " " + format_count(percent(row.asked_bytes, row.usable_bytes)) + " %"
                        : mark(false));
  for (const FittingBatch* batch : {&row.largest, &row.power_of_two}) {
    words.push_back(batch_cell(*batch));
    words.push_back(batch->samples > 0 ? bytes(batch->bytes) : "");
  }
  if (any([](const FitRow& r) { return r.usd.has_value(); })) {
    words.push_back(format_usd(row.usd));
    words.push_back(instance_cell(row));
    words.push_back(row.instance ? price_day(row.instance->price_date) : "");
  }
  if (!timed()) return words;
  const std::optional<double> speed = samples_per_second(row, question_);
  words.push_back(speed ? format_rate(*speed) : "");
  if (shared()) words.push_back(row.efficiency ? format_count(std::llround(100 * *row.efficiency)) + " %" : "");
  words.push_back(format_usd(usd_per_million(row, question_)));
  if (!question_.samples) return words;
  const std::optional<double> epoch = epoch_seconds(row, question_);
  const auto add = [&](double times) {
    const std::optional<double> seconds = epoch ? std::optional(times * *epoch) : std::nullopt;
    words.push_back(seconds ? format_seconds(*seconds) : "");
    words.push_back(format_usd(usd_for(row, seconds)));
  };
  add(1);
  if (question_.epochs != 1) add(question_.epochs);
  return words;
}

// "aws g5.xlarge", "aws p5.48xlarge (8 GPUs, 7 idle)", "2 × aws p5.48xlarge (16 GPUs)"
std::string FitScreen::instance_cell(const FitRow& row) const {
  if (!row.instance) return "";
  const Instance& i = *row.instance;
  const std::int64_t idle = row.idle_gpus(), all = row.strategy.gpus + idle;
  std::string words = i.provider + " " + i.name;
  if (row.instances > 1) words.insert(0, format_count(row.instances) + (style_.unicode ? " × " : " x "));
  if (all > 1) words += " (" + format_count(all) + " GPUs" + (idle > 0 ? ", " + format_count(idle) + " idle)" : ")");
  return words;
}

// Rows that cost as much and are as fast as the chosen one are Pareto's, too.
bool FitScreen::is_faster(const FitRow& row) const {
  if (!row.pareto || !report_.fit.chosen) return row.pareto;
  return samples_per_second(row, question_) > samples_per_second(rows_[*report_.fit.chosen], question_);
}

// The heading and a row for each GPU that is shown.
std::vector<std::vector<std::string>> FitScreen::lines() const {
  std::vector<std::vector<std::string>> lines = {heading()};
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (!shown(rows_[i])) continue;
    std::vector<std::string> row = cells(rows_[i]);
    row.resize(lines[0].size() - 1);
    row.push_back(report_.fit.chosen == i ? mark(true) + " " + report_.fit.why
                  : is_faster(rows_[i])   ? "faster, at a higher price"
                                          : "");
    lines.push_back(std::move(row));
  }
  return lines;
}

namespace {

std::size_t width_of(const std::vector<std::vector<std::string>>& lines) {
  std::size_t width = 0;
  for (std::size_t c = 0; c < lines[0].size(); ++c) {
    std::size_t column = 0;
    for (const std::vector<std::string>& line : lines) column = std::max(column, display_width(line[c]));
    width += 2 + column;
  }
  return width;
}

// On a terminal that is too narrow: what people can do without first, until the rest fits. A pipe gets all.
void drop_columns(std::vector<std::vector<std::string>>& lines, int columns) {
  for (const char* name : {"power of two", "price date", "usable MiB", "USD/epoch", "needs", "instance", "scaling"}) {
    if (width_of(lines) <= static_cast<std::size_t>(columns)) return;
    const auto at = std::ranges::find(lines[0], name);
    if (at == lines[0].end()) continue;
    const auto first = at - lines[0].begin();
    const bool pair = std::string_view(name) == "power of two";  // and what it needs
    for (std::vector<std::string>& line : lines)
      line.erase(line.begin() + first, line.begin() + first + (pair ? 2 : 1));
  }
}

}  // namespace

TextTable FitScreen::table() const {
  std::vector<std::vector<std::string>> all = lines();
  if (style_.interactive) drop_columns(all, style_.width);
  const std::vector<std::string>& names = all[0];
  std::vector<TextTable::Align> columns(names.size(), right);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (i == 0 || names[i] == "shared by" || names[i] == "instance" || names[i] == "price date" ||
        i + 1 == names.size())
      columns[i] = left;
  TextTable table(columns);
  for (std::vector<std::string>& line : all) table.row(std::move(line));
  return table;
}

// Of the whole list only: those that a person named are rows or errors.
std::string FitScreen::left_out() const {
  if (!report_.all_gpus) return "";
  std::vector<std::string> seen;
  for (const FitRow& row : rows_)
    if (shown(row)) seen.push_back(row.gpu.name);
  std::string small, lacking;
  for (const FitRow& row : rows_) {
    if (std::ranges::find(seen, row.gpu.name) != seen.end()) continue;
    seen.push_back(row.gpu.name);
    std::string& list = row.refused.empty() ? small : lacking;
    list += (list.empty() ? "" : ", ") + row.gpu.name;
  }
  std::string out;
  if (!small.empty()) out += "  too small: " + small + "\n";
  const RunConfig& run = report_.question.run;
  const std::string_view type = run.autocast ? name_of(*run.autocast) : precision_text(run);
  if (!lacking.empty()) out += "  no native " + std::string(type) + ": " + lacking + "\n";
  return out;
}

// cuDNN chooses workspaces, and the allocator fills gaps, from one batch to the next.
std::string FitScreen::fits_again() const {
  std::string list;
  for (const FitRow& row : rows_)
    if (shown(row) && row.again.samples > 0)
      list += (list.empty() ? "" : ", ") + format_count(row.again.samples) + " on " + gpu_cell(row);
  return list.empty() ? "" : "  larger batches that also fit, although some below them do not: " + list + "\n";
}

// What is not timed is no choice beside what is.
std::string FitScreen::untimed() const {
  std::string list;
  for (const FitRow& row : rows_)
    if (timed() && shown(row) && row.fits && !row.step_seconds) list += (list.empty() ? "" : ", ") + gpu_cell(row);
  return list.empty()
             ? ""
             : "  not compared, since their step time is not known: " + list + " (no published peak or link)\n";
}

// GPUs that nothing rented puts together.
std::string FitScreen::not_rented() const {
  std::string list;
  for (const FitRow& row : rows_)
    if (row.strategy.gpus > 1 && shown(row) && row.fits && !row.instance)
      list += (list.empty() ? "" : ", ") + gpu_cell(row);
  const bool any_priced = any([](const FitRow& row) { return row.instance.has_value(); });
  return list.empty() || (any_priced && question_.gpus.empty())
             ? ""
             : "  no price: " + list +
                   ": no matching instance has that many; GPUs sold singly are combined where their network is\n" +
                   "  known or given with --network\n";
}

// What it adds to GPUs that share a step.
std::string FitScreen::nccl() const {
  std::optional<std::int64_t> least, most;
  for (const FitRow& row : rows_) {
    if (!shown(row) || row.strategy.gpus < 2) continue;
    const std::int64_t bytes = nccl_buffers(row.strategy, row.gpu, question_.run.pytorch).planned;
    least = std::min(least.value_or(bytes), bytes);
    most = std::max(most.value_or(bytes), bytes);
  }
  if (!most) return "";
  return " + NCCL's buffers where GPUs share a step (" + bytes(*least) +
         (*least == *most ? "" : " to " + bytes(*most)) + ")";
}

// What a figure of `needs` is, and what it may be.
std::string FitScreen::limit() const {
  std::optional<std::int64_t> context;
  bool alike = true;
  for (const FitRow& row : rows_) {
    if (!shown(row)) continue;
    const std::int64_t bytes = context_bytes(question_.run, row.gpu);
    alike = alike && context.value_or(bytes) == bytes;
    context = bytes;
  }
  const std::string several = question_.run.context_bytes ? std::string() : nccl();
  const char* const at_most = style_.unicode ? " ≤ usable" : " <= usable";
  std::string out = "  needs = reserved + " + (context && alike ? bytes(*context) + " of" : std::string("its")) +
                    " CUDA context" + several + at_most;
  if (question_.margin > 0) out += (style_.unicode ? " × " : " x ") + number_text(100 - 100 * question_.margin) + " %";
  return out + dot() + "--runtime and --margin change that\n";
}

std::string FitScreen::prices(Day today) const {
  std::vector<Instance> instances;
  for (const FitRow& row : rows_)
    if (row.instance && shown(row)) instances.push_back(*row.instance);
  if (instances.empty()) return "";
  const bool idle = any([](const FitRow& row) { return row.idle_gpus() > 0; });
  const bool apart = any([](const FitRow& row) { return row.instances > 1; });
  return std::string("  USD/h: for the whole instance, Linux, ") + (question_.spot ? "spot" : "on demand") +
         (timed() ? "; times are modelled" : "") + "\n" +
         (idle ? std::string("  prices include idle GPUs") +
                     (question_.gpus.empty() ? "\n" : ": --gpus any has rows that use them\n")
               : "") +
         (apart
              ? "  instances communicate over the network that is published for them, or the one given with --network\n"
              : "") +
         note() + stale_prices_text(instances, today);
}

// What there is to know of the instance that is taken, such as an Arm host.
std::string FitScreen::note() const {
  if (!report_.fit.chosen) return "";
  const std::optional<Instance>& i = rows_[*report_.fit.chosen].instance;
  return i && !i->notes.empty() ? "  " + i->provider + " " + i->name + ": " + i->notes + "\n" : "";
}

std::string FitScreen::no_fit() const {
  if (report_.fit.chosen) return "";
  if (std::ranges::any_of(rows_, &FitRow::fits))
    return "  " + mark(false) + " it fits, but " +
           (report_.not_rented.empty() ? "no instance with these GPUs matches the flags" : report_.not_rented) + "\n";
  std::string out;
  if (report_.closest) {
    const FitRow& row = rows_[*report_.closest];
    const std::int64_t needs = question_.batch ? row.asked_bytes : row.largest.bytes;
    const std::int64_t batch = question_.batch.value_or(row.largest.least);
    out += "  " + mark(false) + " batch " + format_count(batch) + " needs " + bytes(needs) + ", " +
           bytes(needs - row.limit_bytes) + " more than " + row.gpu.title + " has" + margin_words() +
           (row.strategy.gpus > 1 ? ", on each of " + format_count(row.strategy.gpus) + " GPUs" : "") + "\n";
  }
  return out + suggestions_text(report_.suggestions, report_.closest ? rows_[*report_.closest].limit_bytes : 0, style_);
}

}  // namespace

std::string arguments_of(const FitRow& row, const FitQuestion& question) {
  std::string gpu = row.gpu.name;
  std::erase(gpu, ' ');  // of a size
  std::string words = "--batch " + std::to_string(batch_of(row, question)) + " --gpu " + gpu;
  if (!row.strategy.shares()) return words;
  words += " --gpus " + std::to_string(row.strategy.gpus);
  if (row.instances > 1) {  // what connects them
    words += " --gpus-per-node " + std::to_string(static_cast<std::int64_t>(row.instance->gpu_count));
    const std::optional<double>& gbps = question.network_gbps ? question.network_gbps : row.instance->network_gbps;
    if (gbps) words += " --network " + number_text(*gbps);
  }
  const std::string ddp = row.strategy.find_unused_parameters ? " --find-unused-parameters" : "";
  switch (row.strategy.data) {
    case DataParallel::zero1: return words + " --zero 1" + ddp;
    case DataParallel::zero2: return words + " --zero 2";
    case DataParallel::zero3: return words + " --zero 3";
    case DataParallel::fsdp: {
      const std::string settings = fsdp_words(row.strategy);
      if (row.strategy.experts > 1) words += " --ep " + std::to_string(row.strategy.experts);
      return words + (settings.empty() ? " --zero fsdp" : " --fsdp " + settings);
    }
    case DataParallel::none:
    case DataParallel::megatron: break;
    case DataParallel::ddp: return words + ddp;
  }
  return words;
}

std::string fit_text(const FitReport& report, const TextStyle& style, Day today) {
  const FitScreen screen(report, style);
  std::string out = screen.headline();
  const bool none_shown = report.all_gpus && std::ranges::none_of(report.fit.rows, &FitRow::fits);
  if (!none_shown)
    out += screen.table().text() + screen.left_out() + screen.fits_again() + screen.untimed() + screen.not_rented() +
           screen.limit() + screen.prices(today);
  const std::string no = screen.no_fit();
  return out + (no.empty() || none_shown ? "" : "\n") + no;
}

std::string fit_md(const FitReport& report) { return FitScreen(report, {}).table().markdown(); }

}  // namespace gpuplan
