// The zoo's models have as many parameters as their authors say.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>

#include "configs/embedded.h"
#include "tests/support/zoo_models.h"

using namespace gpuplan;

namespace {

RunConfig one_sample() {
  RunConfig run;
  run.mode = Mode::infer;
  run.optimizer.kind = OptimizerKind::none;
  return run;
}

// "25,557,032" in the comment that opens a model's file: "# torchvision.models.resnet50: 25,557,032 parameters."
std::optional<std::int64_t> count_in_heading(std::string_view text) {
  const std::string_view heading = text.substr(0, text.find("\ngpuplan:"));
  const std::size_t end = heading.find(" parameters");
  if (end == std::string_view::npos) return std::nullopt;
  const std::size_t start = heading.find_last_not_of("0123456789,", end - 1) + 1;
  std::string digits(heading.substr(start, end - start));
  std::erase(digits, ',');
  if (digits.empty()) return std::nullopt;
  return std::stoll(digits);
}

}  // namespace

TEST_CASE("a zoo model has the parameters that its file's heading names") {
  int counted = 0;
  for (const EmbeddedFile& file : embedded_models()) {
    const std::optional<std::int64_t> published = count_in_heading(file.text);
    if (!published) continue;  // a model of nobody's but ours
    CAPTURE(std::string(file.name));
    CHECK_EQ(plan_zoo(std::string(file.name), one_sample()).model.parameters, *published);
    ++counted;
  }
  CHECK_GE(counted, 30);
}

// torchvision: "num_params" of the weights' metadata. Hugging Face: the sum of numel over parameters() of the class
// with the checkpoint's configuration, shared tensors once.
TEST_CASE("vision models, encoders and the smaller decoders have the published number of parameters") {
  struct Count {
    const char* model;
    std::int64_t parameters;
  };
  constexpr Count kPublished[] = {
      {"alexnet", 61'100'840},
      {"convnext_tiny", 28'589'128},
      {"densenet121", 7'978'856},
      {"efficientnet_b0", 5'288'548},
      {"googlenet", 6'624'904},
      {"mobilenet_v2", 3'504'872},
      {"mobilenet_v3_large", 5'483'032},
      {"resnet18", 11'689'512},
      {"resnet34", 21'797'672},
      {"resnet50", 25'557'032},
      {"resnet101", 44'549'160},
      {"resnext50_32x4d", 25'028'904},
      {"wide_resnet50_2", 68'883'240},
      {"shufflenet_v2_x1_0", 2'278'604},
      {"squeezenet1_1", 1'235'496},
      {"swin_t", 28'288'354},
      {"vgg11", 132'863'336},
      {"vgg16", 138'357'544},
      {"vit_b_16", 86'567'656},
      {"vit_base", 86'567'656},  // ViTForImageClassification, google/vit-base-patch16-224
      {"gpt2", 124'439'808},     // GPT2LMHeadModel, the head tied to the embedding
      {"gpt2_medium", 354'823'168},
      {"opt_125m", 125'239'296},   // OPTForCausalLM, likewise
      {"bert_base", 109'483'778},  // ForSequenceClassification with 2 labels, as the three below
      {"bert_large", 335'143'938},
      {"distilbert", 66'955'010},
      {"roberta_large", 355'361'794},
      {"t5_small", 60'506'624},
      {"whisper_base_encoder", 20'590'592},
      {"sd_unet", 859'520'964},  // UNet2DConditionModel of Stable Diffusion 1.5
  };
  for (const Count& c : kPublished) {
    CAPTURE(std::string(c.model));
    CHECK_EQ(plan_zoo(c.model, one_sample()).model.parameters, c.parameters);
  }
}
