// gpuplan serve MODEL --on GPUS: the same engine and load on each of several GPUs.
#pragma once

#include <span>

#include "estimator/device/gpu.h"
#include "estimator/report/serving_offers.h"
#include "estimator/serve/engine_start.h"
#include "estimator/serve/served_model.h"
#include "tools/options/load_options.h"

namespace gpuplan {

/// On as few of each GPU as the engine starts on, up to eight, of which there is an offer.
ServingOffers serving_offers(const ServedModel& model, std::span<const Gpu> gpus, const ServeSettings& settings,
                             const AskedLoad& asked);

}  // namespace gpuplan
