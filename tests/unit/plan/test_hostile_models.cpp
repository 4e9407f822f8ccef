// Models that are nonsense, from the text to the plan: an error at the place, promptly, never a wrong figure. And
// models that are odd but right: a warning.
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>

#include "estimator/plan/plan.h"
#include "estimator/spec/read.h"
#include "layers/catalog.h"

namespace gpuplan {
namespace {

std::string with_layers(const std::string& input, const std::string& layers) {
  return "gpuplan: 1\nname: x\n" + input + "\nlayers:\n" + layers + "loss: mean\n";
}

std::string image_with(const std::string& layer) {
  return with_layers("input: {shape: [3, 32, 32]}", "  - " + layer + "\n");
}

Report plan_of(const std::string& text, std::int64_t batch = 2, const Gpu* gpu = nullptr, DType dtype = DType::fp32) {
  RunConfig run;
  run.batch = batch;
  run.precision = dtype;
  const Model model = read_model(std::make_shared<Source>(Source{"hostile.yaml", text}));
  return plan(model, make_catalog(), run, gpu);
}

// The rendered error; it has a place in the file.
std::string error_of(const std::string& text, std::int64_t batch = 2) {
  std::string message = "no error";
  try {
    (void)plan_of(text, batch);
  } catch (const Error& e) {
    message = e.render();
    CHECK_MESSAGE(message.find("--> hostile.yaml:") != std::string::npos, message);
  }
  return message;
}

bool mentions(const std::string& text, const std::string& words) {
  INFO(text);
  return text.find(words) != std::string::npos;
}

bool warns(const Report& report, const std::string& words) {
  return std::ranges::any_of(report.warnings, [&](const std::string& w) { return w.find(words) != std::string::npos; });
}

}  // namespace

TEST_CASE("sizes of a window beyond 32 bits are refused, not wrapped") {
  for (const char* layer :
       {"Conv2d(3, 4, 3, padding=9223372036854775807)", "Conv2d(3, 4, 3, padding=4611686018427387904)",
        "Conv2d(3, 4, 3, dilation=9223372036854775807)", "Conv2d(3, 4, 9223372036854775807)",
        "MaxPool2d(3, dilation=4611686018427387904)", "MaxPool2d(3, stride=9223372036854775807)",
        "ConvTranspose2d(3, 4, 3, stride=9223372036854775807)", "AdaptiveAvgPool2d(9223372036854775807)",
        "Conv2d(3, 4, 3, padding=-9223372036854775807)"})
    CHECK(mentions(error_of(image_with(layer)), "is out of range"));
}

TEST_CASE("an input whose size overflows is an error at the input") {
  for (const char* size : {"9223372036854775807", "4611686018427387904", "3000000000, 3000000000"})
    CHECK(mentions(error_of(with_layers("input: {shape: [" + std::string(size) + "]}", "  - Flatten()\n")),
                   "hostile.yaml:3:"));
}

TEST_CASE("integers are for embeddings: what has weights, and the loss, need floating point") {
  // torch: "mat1 and mat2 must have the same dtype, but got Long and Float"; mean(): "could not infer output dtype".
  const std::string integers = "input: {shape: [3, 32, 32], dtype: int64}";
  for (const char* layer : {"Linear(32, 4)", "Conv2d(3, 4, 3)", "ConvTranspose2d(3, 4, 3)", "BatchNorm2d(3)"})
    CHECK(mentions(error_of(with_layers(integers, "  - " + std::string(layer) + "\n")),
                   "expects a floating-point input, its input is int64"));
  CHECK(mentions(error_of(with_layers(integers, "  - Flatten()\n")), "the loss needs a floating-point output"));
  CHECK(plan_of(with_layers(integers, "  - Embedding(10, 4)\n")).model.parameters == 40);
}

TEST_CASE("a count of inputs that is not taken says which bound it breaks") {
  const std::string two = "  - a: Identity()\n  - {name: s, op: Sub(), from: [a, a, a]}\n";
  CHECK(mentions(error_of(with_layers("input: {shape: [4]}", two)), "takes at most 2 inputs, got 3"));
}

TEST_CASE("batch norm with one value a channel asks for a larger batch") {
  CHECK(
      mentions(error_of(with_layers("input: {shape: [4]}", "  - BatchNorm1d(4)\n"), 1), "needs a batch of 2 or more"));
}

TEST_CASE("blocks that double 40 times are stopped early") {
  std::string blocks = "blocks:\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "      - {block: B" + std::to_string(i + 1) + "}\n";
    blocks += "  B" + std::to_string(i) + ":\n    layers:\n" + next + next;
  }
  blocks += "  B40:\n    layers:\n      - Identity()\n";
  CHECK(mentions(error_of(with_layers("input: {shape: [4]}\n" + blocks, "  - b: {block: B0}\n")), "layers"));
}

TEST_CASE("control bytes of a file do not reach the terminal") {
  const std::string message = error_of(image_with("\"a\\x1b[31m\\n\": ReLU()"));
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(mentions(message, "error: \"a [31m \" cannot be a layer's name\n"));
  CHECK(mentions(error_of("gpuplan: 1\nname: \"a\\x1b[31m\"\ninput: {shape: [4]}\nlayers:\n  - Linear(4, 4)\n"),
                 "a control character in the name"));
}

TEST_CASE("what is odd is warned about") {
  const std::string two = "inputs: {a: {shape: [4]}, b: {shape: [4]}}";
  const std::string linear = "  - {name: l, op: \"Linear(4, 4)\", from: a}\n";
  CHECK(warns(plan_of(with_layers(two, linear)), "no layer reads the input \"b\""));
  CHECK_FALSE(warns(plan_of(with_layers(two, linear)), "input \"a\""));
  CHECK(warns(plan_of(image_with("ReLU()")), "no parameter is trained"));
  CHECK_FALSE(warns(plan_of(image_with("Linear(32, 4)")), "no parameter is trained"));
  Gpu old = assumed_gpu();
  old.capability_major = 7;
  CHECK(warns(plan_of(image_with("Linear(32, 4)"), 2, &old, DType::bf16), "bf16"));
  CHECK_FALSE(warns(plan_of(image_with("Linear(32, 4)"), 2, &old, DType::fp16), "bf16"));
}

}  // namespace gpuplan
