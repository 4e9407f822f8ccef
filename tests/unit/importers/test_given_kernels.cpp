// Exchanges in the text of a decoder's spec: Liger's kernels, and an attention_mask.
#include <doctest/doctest.h>

#include "estimator/plan/plan.h"
#include "layers/catalog.h"
#include "tools/options/run_options.h"

namespace gpuplan {
namespace {

Report planned(const std::string& family, const std::string& kernels, const std::string& lora = "",
               const std::string& padded = "") {
  RunOptions options;
  options.model = std::string(GPUPLAN_SOURCE_DIR) + "/tests/recorded/fine_tuning/models/" + family + ".json";
  options.batch = "2";
  options.seq = "64";
  options.kernels = kernels;
  options.lora = lora;
  if (!padded.empty()) options.set = {"padded=" + padded};
  return plan(load_model(options), make_catalog(), run_config(options));
}

}  // namespace

TEST_CASE("Liger's kernels change what is kept, and not what is multiplied") {
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) {
    CAPTURE(family);
    const Report torch = planned(family, "torch"), liger = planned(family, "liger");
    CHECK(liger.model.parameters == torch.model.parameters);
    CHECK(liger.compute.forward_macs == torch.compute.forward_macs);
    CHECK(liger.compute.backward_flops == torch.compute.backward_flops);
    // With a head that is trained the loss saves its gradient, which is as large as the head.
    CHECK(planned(family, "liger", "r=8").bytes.saved_for_backward <
          planned(family, "torch", "r=8").bytes.saved_for_backward);
  }
}

TEST_CASE("a mask with padding is one more input, and costs what it takes") {
  const Report none = planned("llama", "torch"), given = planned("llama", "torch", "", "1"),
               full = planned("llama", "torch", "", "0");
  const std::int64_t mask = 2 * 64 * 8;  // a number of 8 bytes for each token
  CHECK(given.bytes.inputs == none.bytes.inputs + mask);
  CHECK(full.bytes.inputs == given.bytes.inputs);
  CHECK(given.bytes.saved_for_backward > full.bytes.saved_for_backward);
  CHECK(given.compute.step_flops == none.compute.step_flops);
}

}  // namespace gpuplan
