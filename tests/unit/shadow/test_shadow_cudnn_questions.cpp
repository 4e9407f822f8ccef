// Which convolution a program asks cuDNN about, and what a device answered of it.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>

#include "validate/shadow/runtime/cudnn_questions.h"

using namespace gpuplan;
using namespace gpuplan::shadow;
using namespace gpuplan::shadow::cudnn;

namespace {

// cudnnBackendDescriptorType_t and cudnnBackendAttributeName_t, of NVIDIA's cudnn_graph.h.
constexpr int kConvolution = 1, kForward = 10, kGraph = 15, kTensor = 17;

/// A graph of ResNet-50's layer1.0.conv2 forward in NCHW as PyTorch sets it, and two configurations as its answer.
class Program {
 public:
  Program(std::int64_t batch, int type) {
    describe(x_, {batch, 64, 56, 56}, type);
    describe(w_, {64, 64, 3, 3}, type);
    describe(y_, {batch, 64, 56, 56}, type);
    questions_.created(kConvolution, &convolution_);
    for (const int attribute : {102, 103, 105}) set(convolution_, attribute, std::array<std::int64_t, 2>{1, 1});
    questions_.created(kForward, &operation_);
    set(operation_, 702, std::array<Descriptor, 1>{&convolution_});
    set(operation_, 703, std::array<Descriptor, 1>{&w_});
    set(operation_, 704, std::array<Descriptor, 1>{&x_});
    set(operation_, 705, std::array<Descriptor, 1>{&y_});
    questions_.created(kGraph, &graph_);
    set(graph_, 801, std::array<Descriptor, 1>{&operation_});
    questions_.created(kHeuristicsDescriptor, &heuristics_);
    set(heuristics_, 201, std::array<Descriptor, 1>{&graph_});
    const std::array<Descriptor, 2> configurations = {&first_, &second_};
    questions_.answered(&heuristics_, configurations.data(), 2);
  }
  Asked first() { return questions_.of(&first_); }
  Asked second() { return questions_.of(&second_); }

 private:
  template <class T, std::size_t N>
  void set(char& descriptor, int attribute, const std::array<T, N>& values) {
    questions_.set(&descriptor, attribute, static_cast<std::int64_t>(N), values.data());
  }
  void describe(char& tensor, const std::array<std::int64_t, 4>& sizes, int type) {
    questions_.created(kTensor, &tensor);
    set(tensor, 901, std::array<int, 1>{type});
    set(tensor, 902, sizes);
    set(tensor, 903,
        std::array<std::int64_t, 4>{sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], std::int64_t{1}});
  }

  Questions questions_;
  char x_ = 0, w_ = 0, y_ = 0, convolution_ = 0, operation_ = 0, graph_ = 0, heuristics_ = 0, first_ = 0, second_ = 0;
};

constexpr int kFloat = 0, kDouble = 1, kInt8 = 3;  // cudnnDataType_t

}  // namespace

TEST_CASE("a graph of one convolution is followed to the configurations that answer it") {
  Program program(64, kFloat);
  const Asked asked = program.first();
  REQUIRE(asked.convolution);
  CHECK(asked.convolution->pass == CudnnConvolution::Pass::forward);
  CHECK(asked.convolution->dtype == DType::fp32);
  CHECK_FALSE(asked.convolution->channels_last);
  CHECK(asked.convolution->n == 64);
  CHECK(asked.convolution->groups == 1);
  CHECK(asked.first);
  CHECK_FALSE(program.second().first);
  CHECK_FALSE(Program(64, kInt8).first().convolution);
}

// tests/reference/h100/convolutions: f tf32 nchw 64 64 56 56 64 3 3, padding 1.
TEST_CASE("a convolution that a device was asked for has its workspace, where the program takes the first answer") {
  const GpuDescription h200;
  CHECK(answer_of_device(Program(64, kFloat).first(), h200) == 102'908'051);
  CHECK_FALSE(answer_of_device(Program(64, kFloat).second(), h200));
  CHECK_FALSE(answer_of_device(Program(48, kFloat).first(), h200));   // no batch that was asked for
  CHECK_FALSE(answer_of_device(Program(512, kFloat).first(), h200));  // nor this
  CHECK_FALSE(answer_of_device(Program(64, kDouble).first(), h200));
  GpuDescription a100;
  a100.major = 8, a100.multi_processor_count = 108;
  CHECK_FALSE(answer_of_device(Program(64, kFloat).first(), a100));
}
