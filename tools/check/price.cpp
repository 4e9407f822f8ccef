#include "tools/check/price.h"

#include <cmath>

#include "estimator/report/time_text.h"

namespace gpuplan {

std::optional<SamplePrice> sample_price(const StepTime& time, const std::string& gpu,
                                        std::span<const Instance> instances) {
  const Instance* cheapest = nullptr;
  const auto usd_of_one = [](const Instance& i) { return *i.usd / i.gpu_count; };
  for (const Instance& i : instances)
    if (i.gpu == gpu && i.usd && i.gpu_count >= 1 && (cheapest == nullptr || usd_of_one(i) < usd_of_one(*cheapest)))
      cheapest = &i;
  if (cheapest == nullptr || time.samples == 0) return std::nullopt;
  const double usd = usd_of_one(*cheapest), hours = time.seconds() / 3600 / static_cast<double>(time.samples);
  return SamplePrice{.micro_usd = std::llround(usd * hours * 1e12),
                     .made_of = cheapest->provider + " " + cheapest->name + ", " + format_figure(usd) +
                                " USD/h a GPU, " + cheapest->price_date};
}

}  // namespace gpuplan
