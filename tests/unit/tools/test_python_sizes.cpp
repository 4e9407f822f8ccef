// Sizes that --input has by name: which of --set are theirs, and which the spec's variables.
#include <doctest/doctest.h>

#include "estimator/spec/read.h"
#include "tools/options/python_step.h"

namespace gpuplan {
namespace {

std::vector<std::string> sizes_of(std::string model, std::vector<std::string> inputs, std::vector<Variable> set) {
  RunOptions options;
  options.model = std::move(model);
  options.inputs = std::move(inputs);
  std::vector<std::string> words = python_model(options, set).sizes;
  for (const Variable& left : set) words.push_back("left " + left.name);
  return words;
}

TEST_CASE("a name among the sizes of an input is taken from --set, others are left to the spec") {
  using Words = std::vector<std::string>;
  CHECK(sizes_of("n.py:Net", {"tokens:int64:seq", "pixels:images*3xsizexsize"},
                 {{"seq", 96}, {"images", 2}, {"size", 56}, {"padded", 0}}) ==
        Words{"seq=96", "images=2", "size=56", "left padded"});
  CHECK(sizes_of("n.py:Net", {"seq:int64"}, {{"seq", 96}}) == Words{"seq=96"});
  CHECK(sizes_of("n.py:Net", {"input_ids:int64:96"}, {{"seq", 96}, {"ids", 1}}) == Words{"left seq", "left ids"});
  CHECK(sizes_of("n.py:Net", {"labels=seq"}, {{"seq", 96}}) == Words{"left seq"});
  CHECK(sizes_of("hf:a/b", {}, {{"seq", 96}, {"images", 2}, {"padded", 0}}) ==
        Words{"seq=96", "images=2", "left padded"});
  CHECK(sizes_of("timm:resnet18", {}, {{"seq", 96}}) == Words{"left seq"});
}

}  // namespace
}  // namespace gpuplan
