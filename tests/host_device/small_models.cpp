#include "tests/host_device/small_models.h"

#include <fstream>
#include <sstream>
#include <utility>

#include "estimator/spec/read.h"
#include "layers/catalog.h"

namespace gpuplan {
namespace {

constexpr const char* kMlp = R"(gpuplan: 1
name: mlp
input: {shape: [6]}
layers:
  - Linear(6, 8)
  - BatchNorm1d(8)
  - ReLU()
  - Dropout(0.5)
  - Linear(8, 5)
  - LayerNorm(5)
  - GELU()
  - Linear(5, 3)
loss: CrossEntropyLoss()
)";

constexpr const char* kCnn = R"(gpuplan: 1
name: cnn
input: {shape: [3, 8, 8]}
layers:
  - conv1: Conv2d(3, 4, 3, padding=1, bias=False)
  - bn1: BatchNorm2d(4)
  - relu: ReLU(inplace=True)
  - maxpool: MaxPool2d(3, stride=2, padding=1)
  - part:
      layers:
        - residual:
            inplace: true
            body:
              - Conv2d(_, 4, 3, padding=1, bias=False)
              - BatchNorm2d(_)
              - ReLU6(inplace=True)
              - Conv2d(_, 4, 3, padding=1, groups=4)
              - BatchNorm2d(_)
        - ReLU(inplace=True)
  - down:
      layers:
        - residual:
            body:
              - Conv2d(_, 6, 3, stride=2, padding=1, groups=2)
              - BatchNorm2d(_)
              - SiLU()
            shortcut:
              - Conv2d(_, 6, 1, stride=2, bias=False)
  - pool: AdaptiveAvgPool2d(1)
  - Flatten()
  - Dropout(0.2)
  - fc: Linear(6, 3)
loss: CrossEntropyLoss()
)";

std::shared_ptr<const Source> zoo_file(const std::string& name) {
  auto source = std::make_shared<Source>();
  source->name = std::string(GPUPLAN_SOURCE_DIR) + "/configs/models/" + name;
  std::ifstream in(source->name);
  if (!in) throw Error("cannot read " + source->name);
  std::ostringstream text;
  text << in.rdbuf();
  source->text = text.str();
  return source;
}

}  // namespace

std::unique_ptr<Executable> executable(Model model, const RunConfig& run, const Gpu& gpu) {
  auto e = std::make_unique<Executable>();
  e->model = std::move(model);
  e->step = make_step(e->model, make_catalog(), run, gpu, {}, true);
  return e;
}

Model small_zoo_model(const std::string& name, std::initializer_list<Variable> set) {
  SpecOptions options;
  options.set = set;
  options.open = [](std::string_view other, std::string_view) { return zoo_file(std::string(other)); };
  return read_model(zoo_file(name + ".yaml"), options);
}

Model small_model(const std::string& name) {
  const auto inlined = [](const char* text) {
    return read_model(std::make_shared<Source>(Source{"small.yaml", text}));
  };
  if (name == "mlp") return inlined(kMlp);
  if (name == "cnn") return inlined(kCnn);
  if (name == "unet") return small_zoo_model("unet_small", {{"width", 2}, {"size", 8}});
  if (name == "gpt2")
    return small_zoo_model(
        "gpt2", {{"seq", 6}, {"vocabulary", 17}, {"positions", 8}, {"hidden", 16}, {"heads", 2}, {"layers", 2}});
  if (name == "bert")
    return small_zoo_model(
        "bert_base",
        {{"seq", 5}, {"vocabulary", 13}, {"positions", 8}, {"hidden", 16}, {"inner", 12}, {"heads", 2}, {"layers", 2}});
  if (name == "vit")
    return small_zoo_model("vit_b_16", {{"size", 4}, {"patch", 2}, {"hidden", 16}, {"heads", 2}, {"classes", 3}});
  if (name == "llama")
    return small_zoo_model("tinyllama_1b", {{"seq", 6},
                                            {"vocabulary", 17},
                                            {"hidden", 16},
                                            {"inner", 12},
                                            {"layers", 2},
                                            {"heads", 4},
                                            {"kv_heads", 2},
                                            {"head", 8}});
  throw Error("no small model " + name);
}

std::vector<std::string> small_models() { return {"mlp", "cnn", "unet", "gpt2", "bert", "vit", "llama"}; }

Gpu ampere() { return assumed_gpu(); }

Gpu hopper() {
  Gpu gpu = assumed_gpu();
  gpu.name = gpu.title = "hopper";
  gpu.capability_major = 9;
  gpu.sm_count = 132;
  return gpu;
}

}  // namespace gpuplan
