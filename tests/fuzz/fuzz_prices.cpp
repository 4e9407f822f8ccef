// libFuzzer target: any bytes are instances with prices, a catalog of SkyPilot's or gpuhunt's, a GPU, or an Error. What
// was read is written as it reads again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "estimator/device/read_gpu.h"
#include "estimator/device/write_gpu.h"
#include "estimator/market/import_catalog.h"
#include "estimator/report/instance_list.h"
#include "tests/fuzz/fuzz_read.h"

namespace {

std::vector<gpuplan::Gpu> some_gpus() {
  std::vector<gpuplan::Gpu> gpus(3);
  gpus[0].name = "t4";
  gpus[1].name = "l4";
  gpus[2].name = "a100-40gb";
  gpus[2].aliases = {"A100"};
  return gpus;
}

void check_instances(const std::vector<gpuplan::Instance>& instances, const std::vector<gpuplan::Gpu>& gpus) {
  const std::string text = gpuplan::instances_csv(instances);
  gpuplan::read_or_abort([&] {
    if (gpuplan::instances_csv(gpuplan::read_instances({"again.csv", text}, gpus)) != text) std::abort();
  });
  (void)gpuplan::instance_list_text(instances, 20779);
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gpuplan::Source source{"fuzz", std::string(reinterpret_cast<const char*>(data), size)};
  const std::vector<gpuplan::Gpu> gpus = some_gpus();
  gpuplan::read_or_error([&] { check_instances(gpuplan::read_instances(source, gpus), gpus); });
  gpuplan::read_or_error(
      [&] { (void)gpuplan::import_catalog(source, {.provider = "cloud", .region = "", .date = "2026-11-22"}, gpus); });
  gpuplan::read_or_error([&] {
    const std::string text = gpuplan::gpu_yaml(gpuplan::read_gpu(source));
    gpuplan::read_or_abort([&] {
      if (gpuplan::gpu_yaml(gpuplan::read_gpu({"again.yaml", text})) != text) std::abort();
    });
  });
  return 0;
}
