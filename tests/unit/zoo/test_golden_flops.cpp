// Parameters and FLOPs of the zoo against integers measured with PyTorch 1.13 and torchvision 0.14 at batch 1: MACs of
// convolutions and matmuls by operator, forward and backward (the stem's input gradient is not computed).
#include <doctest/doctest.h>

#include "tests/support/zoo_models.h"

namespace gpuplan {
namespace {

struct Golden {
  const char* model;
  std::int64_t parameters, forward_macs, step_flops;
};

// step_flops is 6 * MACs - 2 * MACs of the stem convolution. googlenet is built without its auxiliary heads, which
// run in training only: 6,624,904 parameters instead of 13,004,888.
constexpr Golden kGolden[] = {
    {"resnet18", 11'689'512, 1'814'073'344, 10'648'412'160},
    {"resnet50", 25'557'032, 4'089'184'256, 24'299'077'632},
    {"vgg16", 138'357'544, 15'470'264'320, 92'648'177'664},
    {"mobilenet_v2", 3'504'872, 300'774'272, 1'782'969'600},
    {"mobilenet_v3_large", 5'483'032, 216'589'760, 1'288'700'544},
    {"densenet121", 7'978'856, 2'834'161'664, 16'768'942'080},
    {"efficientnet_b0", 5'288'548, 385'814'752, 2'293'212'480},
    {"googlenet", 6'624'904, 1'498'376'192, 8'754'229'248},
    {"shufflenet_v2_x1_0", 2'278'604, 144'907'992, 853'190'928},
    {"fcn_resnet50", 32'957'013, 26'484'498'432, 158'670'962'688},
};

}  // namespace

TEST_CASE("parameters and FLOPs equal the measured integers") {
  for (const Golden& g : kGolden) {
    CAPTURE(g.model);
    RunConfig run;
    run.batch = 1;
    run.mode = Mode::infer;
    const Report inference = plan_zoo(g.model, run);
    CHECK(inference.model.parameters == g.parameters);
    CHECK(inference.compute.forward_macs == g.forward_macs);
    CHECK(inference.compute.forward_flops == 2 * g.forward_macs);
    run.mode = Mode::train;
    run.batch = 2;  // batch norm refuses to train on one value a channel
    const Report training = plan_zoo(g.model, run);
    CHECK(training.compute.step_flops == 2 * g.step_flops);
  }
}

}  // namespace gpuplan
