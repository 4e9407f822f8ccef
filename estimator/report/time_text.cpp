#include "estimator/report/time_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "estimator/base/format.h"
#include "estimator/report/writers.h"

namespace gpuplan {
namespace {

constexpr double kNotShown = 0.0005;  // of the step

std::int64_t to_nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// Three significant digits of a number from 1 to below 1000, from its thousandths; two decimals below 1.
std::string three_digits(std::int64_t thousandths) {
  const int decimals = thousandths < 9'995 ? 2 : thousandths < 99'950 ? 1 : 0;
  const std::int64_t step = decimals == 2 ? 10 : decimals == 1 ? 100 : 1000;
  const std::int64_t rounded = (thousandths + step / 2) / step;
  std::string text = std::to_string(rounded);
  const auto least = static_cast<std::size_t>(decimals) + 1;
  if (text.size() < least) text.insert(0, least - text.size(), '0');
  if (decimals > 0) text.insert(text.size() - static_cast<std::size_t>(decimals), ".");
  return text;
}

std::string bound_words(const StepTime& time) {
  const double seconds = std::max(time.seconds(), 1e-12);
  const auto percent = [&](double part) { return std::to_string(std::llround(100 * part / seconds)) + " % "; };
  const double most = std::max({time.compute_seconds, time.memory_seconds, time.waiting_seconds});
  if (time.communication_seconds > std::max(most, time.copy_seconds))
    return percent(time.communication_seconds) + "communication-bound";
  if (time.copy_seconds > most) return percent(time.copy_seconds) + "copying the batch";
  switch (time.bound) {
    case Bound::compute: return percent(time.compute_seconds) + "compute-bound";
    case Bound::memory: return percent(time.memory_seconds) + "memory-bound";
    case Bound::launch: break;
  }
  return percent(time.waiting_seconds) + "launch-bound";
}

}  // namespace

void tell_time(const StepTime& time, Report& report) {
  report.time = time;
  for (std::size_t i = 0; i < report.layers.size() && i < time.layers.size(); ++i) {
    report.layers[i].forward_ns = to_nanoseconds(time.layers[i].forward_seconds);
    report.layers[i].backward_ns = to_nanoseconds(time.layers[i].backward_seconds);
    report.layers[i].bound = time.layers[i].bound;
    report.layers[i].busy_ns = to_nanoseconds(time.layers[i].busy_seconds);
    report.layers[i].work_flops = time.layers[i].flops;
    report.layers[i].work_bytes = time.layers[i].bytes;
  }
}

std::string format_seconds(double seconds) {
  static constexpr std::pair<double, const char*> kUnits[] = {{1e-6, " us"}, {1e-3, " ms"}, {1, " s"}};
  if (seconds >= 48 * 3600) return three_digits(std::llround(seconds / 86'400 * 1000)) + " days";
  if (seconds >= 2 * 3600) return three_digits(std::llround(seconds / 3600 * 1000)) + " h";
  if (seconds >= 120) return three_digits(std::llround(seconds / 60 * 1000)) + " min";
  for (const auto& [unit, name] : kUnits)
    if (seconds < 999.5 * unit || unit == 1) return three_digits(std::llround(seconds / unit * 1000)) + name;
  return "";
}

std::string format_figure(double amount) {
  if (amount >= 999.5) return format_count(std::llround(amount));
  return three_digits(std::llround(amount * 1000));
}

std::string format_flops_per_second(double flops) { return format_flops(std::llround(flops)) + "/s"; }

std::vector<std::array<std::string, 2>> time_rows(const Report& report, const std::string& dot) {
  if (!report.no_time.empty()) return {{"Time", "not known: " + report.no_time}};
  if (!report.time || report.time->seconds() <= 0) return {};
  const StepTime& t = *report.time;
  // A step of decoding makes one token of each sample.
  const bool decodes = report.run.generation.part == Generation::Part::decode;
  const std::string per = report.run.mode == Mode::train ? " per step" : decodes ? " per token" : " per batch";
  const auto rate = [&](std::int64_t amount) { return format_figure(static_cast<double>(amount) / t.seconds()); };
  const Verdict fit = verdict(report);
  std::string line = format_seconds(t.seconds()) + per + (fit.known && !fit.fits ? ", if it fit" : "");
  const std::int64_t together = report.run.tensor_ranks * (report.rank ? report.rank->strategy.pipeline : 1);
  const std::string gpus = together > 1 ? format_count(together) + " GPUs" : "GPU";
  const std::string each = t.communication_seconds > 0 ? " per " + gpus : "";
  line += dot + rate(t.samples) + (decodes ? " tokens/s" : " samples/s");
  if (t.tokens > 0 && !decodes) line += dot + rate(t.tokens) + " tokens/s";
  line += each;
  line += dot + bound_words(t) + dot + (t.measured ? "from measurements of this GPU" : "modelled");
  const std::pair<const char*, double> parts[] = {{"copy", t.copy_seconds},
                                                  {"forward", t.forward_seconds},
                                                  {"loss", t.loss_seconds},
                                                  {"backward", t.backward_seconds},
                                                  {"clip", t.clip_seconds},
                                                  {"optimizer", t.optimizer_seconds},
                                                  {"communication", t.communication_seconds},
                                                  {"waiting for other stages", t.bubble_seconds}};
  std::string rows;
  for (const auto& [name, seconds] : parts)
    if (seconds > kNotShown * t.seconds()) rows += (rows.empty() ? "" : dot) + name + " " + format_seconds(seconds);
  std::vector<std::array<std::string, 2>> lines = {{"Time", line}, {"", rows}};
  if (t.flops_per_second > 0 && t.peak_flops > 0)
    lines.push_back({"", format_flops_per_second(t.flops_per_second) + ", " + format_figure(100 * t.mfu()) +
                             " % MFU (peak " + format_flops_per_second(t.peak_flops) + ")"});
  return lines;
}

}  // namespace gpuplan
