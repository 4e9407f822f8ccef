#include "tools/answers/serving_offers.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "estimator/serve/start.h"
#include "tools/answers/served_load.h"

namespace gpuplan {
namespace {

constexpr std::int64_t kMostRanks = 8;

ServingRow row_of(const ServedModel& model, const Gpu& gpu, ServeSettings settings, const AskedLoad& asked,
                  std::string& engine) {
  if (settings.tensor_ranks > kMostRanks)
    throw Error("--on takes eight GPUs at most, not --tp " + std::to_string(settings.tensor_ranks), ErrorKind::usage);
  ServingRow row{.gpu = gpu.name, .title = gpu.title, .refused = {}, .load = {}};
  for (std::int64_t ranks = settings.tensor_ranks; ranks <= kMostRanks; ranks *= 2) {
    settings.tensor_ranks = row.count = ranks;
    try {
      const EngineStart start = start_engine(model, gpu, settings);
      engine = start.engine;
      row.refused = start.error;
      if (!start.starts) continue;
      row.cache_tokens = start.limits.cache_tokens;
      row.load = served_load(model, gpu, settings, start, asked, false);
      row.refused.clear();
      row.meets = !asked.slo || row.load->highest.has_value();
      return row;
    } catch (const Error& e) {
      if (row.refused.empty()) row.refused = e.message();
    }
  }
  return row;
}

}  // namespace

ServingOffers serving_offers(const ServedModel& model, std::span<const Gpu> gpus, const ServeSettings& settings,
                             const AskedLoad& asked) {
  ServingOffers out;
  out.model = model.name;
  out.words = asked.words;
  out.slo = asked.slo_words;
  for (const Gpu& gpu : gpus) out.rows.push_back(row_of(model, gpu, settings, asked, out.engine));
  std::ranges::stable_sort(out.rows, {}, [](const ServingRow& row) {
    const std::optional<double> usd = row.load ? row.load->usd_per_million() : std::nullopt;
    return std::tuple(!row.refused.empty(), !row.meets, usd.value_or(HUGE_VAL));
  });
  return out;
}

}  // namespace gpuplan
