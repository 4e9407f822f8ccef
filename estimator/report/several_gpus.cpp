#include "estimator/report/several_gpus.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "estimator/report/text_table.h"
#include "estimator/report/time_text.h"
#include "estimator/report/writers.h"

namespace gpuplan {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t microseconds(double seconds) { return static_cast<std::int64_t>(std::llround(seconds * 1e6)); }

// Null where it is not known. Rounded: the same text everywhere.
Json scaling_json(const RankPlan& plan) {
  if (!plan.time || plan.time->step.seconds() <= 0) return nullptr;
  const auto rounded = [](double value, double unit) { return std::round(value * unit) / unit; };
  const double samples = static_cast<double>(plan.report.run.batch * plan.strategy.ranks());
  return {{"step_seconds", rounded(plan.time->step.seconds(), 1e9)},
          {"one_gpu_seconds", rounded(plan.time->alone_seconds, 1e9)},
          {"samples_per_second", rounded(samples / plan.time->step.seconds(), 1e3)},
          {"scaling_efficiency", rounded(plan.time->efficiency(), 1e4)},
          {"copy_seconds", rounded(plan.time->copy_seconds, 1e9)}};
}

class GpusScreen : public StyledScreen {
 public:
  GpusScreen(const RankPlan& plan, const TextStyle& style) : StyledScreen(style), plan_(plan) {}

  std::string text() const {
    const Strategy& s = plan_.strategy;
    std::string out = "  " + paint("1", std::string(title_of(s.data))) + dot() + "rank " + format_count(s.rank) +
                      " of " + format_count(s.ranks()) + dot() + "batch " + format_count(plan_.report.run.batch) +
                      " each, " + format_count(plan_.report.run.batch * s.ranks()) + " in all\n";
    out += "  keeps    " + bytes(plan_.states.parameters) + " of parameters" + dot() + bytes(plan_.states.gradients) +
           " of gradients" + dot() + bytes(plan_.states.optimizer_state) + " of optimizer state\n";
    if (plan_.nccl_bytes > 0)
      out += "  NCCL     " + bytes(plan_.nccl_bytes) + " of buffers in the runtime above, assumed (--runtime)\n";
    return out + scales() + sends();
  }

 private:
  // What the GPUs do together, and what of their throughput is left.
  std::string scales() const {
    if (!plan_.time || plan_.time->step.seconds() <= 0) return "";
    const RankTime& time = *plan_.time;
    const double samples = static_cast<double>(plan_.report.run.batch * plan_.strategy.ranks());
    return "  scales   " + format_figure(samples / time.step.seconds()) +
           (plan_.report.run.generation.part == Generation::Part::decode ? " tokens/s" : " samples/s") + " on all" +
           dot() + format_figure(100 * time.efficiency()) + " % scaling efficiency" + dot() +
           "alone with its batch a GPU takes " + format_seconds(time.alone_seconds) +
           (time.efficiency() > 1 ? ", stepping the whole optimizer" : "") + "\n";
  }

  std::string sends() const {
    if (plan_.communication.empty()) return "";
    TextTable table({kLeft, kLeft, kRight, kRight, kRight});
    std::vector<std::string> heads = {"a step sends", "", "a rank", "on the link"};
    if (plan_.time) heads.emplace_back("waited for");
    table.row(heads);
    double all = 0;
    bool known = true;
    for (std::size_t i = 0; i < plan_.communication.size(); ++i) {
      const CommunicationRow& row = plan_.communication[i];
      known = known && row.seconds.has_value();
      all += row.seconds.value_or(0);
      std::vector<std::string> cells = {std::string(row.what), std::string(name_of(row.collective)),
                                        bytes(row.sent_bytes),
                                        row.seconds ? format_seconds(*row.seconds) : "not known"};
      if (plan_.time) cells.push_back(format_seconds(plan_.time->exposed[i]));
      table.row(cells);
    }
    if (plan_.time && plan_.time->copy_seconds > 0)
      table.row({"copies into buffers and back", "", "", "", format_seconds(plan_.time->copy_seconds)});
    std::vector<std::string> sum = {"in all, one after another", "", "", format_seconds(all)};
    if (plan_.time) sum.push_back(format_seconds(plan_.time->step.communication_seconds));
    if (known) table.row(sum);
    return "\n" + table.text() + (known ? "" : "  the link is not known: --gpu, and --network beyond a node\n");
  }

  const RankPlan& plan_;
};

}  // namespace

std::string_view title_of(DataParallel kind) {
  constexpr std::array<std::string_view, 6> titles = {"one GPU", "DDP", "ZeRO-1", "ZeRO-2", "ZeRO-3", "FSDP2"};
  return titles[static_cast<std::size_t>(kind)];
}

std::string several_gpus_text(const RankPlan& plan, const TextStyle& style) { return GpusScreen(plan, style).text(); }

std::string several_gpus_json(const RankPlan& plan, std::string_view version) {
  Json json = Json::parse(report_json(plan.report, version));
  const Strategy& s = plan.strategy;
  Json rows = Json::array();
  for (std::size_t i = 0; i < plan.communication.size(); ++i) {
    const CommunicationRow& row = plan.communication[i];
    rows.push_back({{"what", row.what},
                    {"collective", name_of(row.collective)},
                    {"bytes", row.bytes},
                    {"sent_bytes", row.sent_bytes},
                    {"microseconds", row.seconds ? Json(microseconds(*row.seconds)) : Json(nullptr)},
                    {"exposed_microseconds", plan.time ? Json(microseconds(plan.time->exposed[i])) : Json(nullptr)}});
  }
  json["parallel"] = {{"data", name_of(s.data)},
                      {"gpus", s.gpus},
                      {"rank", s.rank},
                      {"batch", plan.report.run.batch * s.ranks()},
                      {"bytes",
                       {{"parameters", plan.states.parameters},
                        {"gradients", plan.states.gradients},
                        {"optimizer_state", plan.states.optimizer_state}}},
                      {"nccl_bytes", plan.nccl_bytes},
                      {"communication", std::move(rows)},
                      {"time", scaling_json(plan)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gpuplan
