#include <doctest/doctest.h>

#include "estimator/report/count_as.h"
#include "tests/support/zoo_models.h"

using namespace gpuplan;

namespace {

// What the tools printed for torchvision 0.14.1's models in eval mode at batch 1, 3x224x224, torch 1.13.1 on a CPU:
// fvcore 3378afe, ptflops d612c75 (pytorch backend, count_functional=False), thop 43c064a, torchinfo 5c4164f, DeepSpeed
// 38327e0 (flops), torch.utils.flop_counter. `functions` is what ptflops and thop leave out because torchvision calls a
// function where our spec can only name the module.
struct Printed {
  const char* model;
  std::int64_t fvcore, ptflops, thop, torchinfo, deepspeed, torch;
  std::int64_t ptflops_functions = 0, thop_functions = 0;
};

constexpr Printed kPrinted[] = {
    {"resnet18", 1819065856, 1822177768, 1824033792, 1814083944, 3636250112, 3628146688},
    {"resnet50", 4111512576, 4121925096, 4133742592, 4089238376, 8211108352, 8178368512},
    {"vgg16", 15470289408, 15503523304, 15470314496, 15483821032, 30973778432, 30940528640},
    // F.adaptive_avg_pool2d of 1280x7x7: 62,720 in, 1,280 out.
    {"mobilenet_v2", 314193216, 320237288, 327486720, 300809384, 614967488, 601548544, 62720, 64000},
    {"mobilenet_v3_large", 226033824, 228356576, 234838456, 216621520, 444944056, 433179520},
    // F.relu and F.adaptive_avg_pool2d of 1024x7x7: 50,176 each, 1,024 out.
    {"densenet121", 2865546752, 2882620136, 2897007104, 2834246312, 5716881152, 5668323328, 100352, 51200},
    {"efficientnet_b0", 401659392, 401669732, 415145024, 385867108, 793641400, 771629504},
    // Every ReLU is F.relu: as many elements as batch norm has, 3,226,160.
    {"googlenet", 1504878688, 1507755400, 1511332032, 1498391752, 3009356752, 2996752384, 3226160, 0},
    {"shufflenet_v2_x1_0", 148808392, 150598480, 152708792, 144925172, 295505472, 289815984},
    {"fcn_resnet50", 26539892736, 26558474320, 26586857472, 26484569040, 53043022928, 52968996864},
};

}  // namespace

TEST_CASE("--count-as prints what the tools print, to the unit") {
  for (const Printed& printed : kPrinted) {
    CAPTURE(printed.model);
    for (const std::int64_t batch : {1, 8}) {
      RunConfig run;
      run.mode = Mode::infer;
      run.optimizer.kind = OptimizerKind::none;
      run.batch = batch;
      const Report report = plan_zoo(printed.model, run);
      CHECK_EQ(count_as_per_sample(CountingTool::fvcore, report), printed.fvcore);
      CHECK_EQ(count_as_per_sample(CountingTool::ptflops, report) - printed.ptflops_functions, printed.ptflops);
      CHECK_EQ(count_as_per_sample(CountingTool::thop, report) - printed.thop_functions, printed.thop);
      CHECK_EQ(count_as_per_sample(CountingTool::torchinfo, report), printed.torchinfo);
      CHECK_EQ(count_as_per_sample(CountingTool::deepspeed, report), printed.deepspeed);
      CHECK_EQ(count_as_per_sample(CountingTool::torch, report), printed.torch);
    }
  }
}
