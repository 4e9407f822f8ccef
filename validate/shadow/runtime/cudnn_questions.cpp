#include "validate/shadow/runtime/cudnn_questions.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <string>
#include <utility>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

// cudnnBackendDescriptorType_t
constexpr int kConvolution = 1, kOperationForward = 10, kOperationBackwardFilter = 11, kOperationBackwardData = 12,
              kGraph = 15, kTensor = 17;
// cudnnBackendAttributeName_t
constexpr std::array kPasses = {"forward", "backward_data", "backward_filter"};
constexpr std::array<std::pair<int, DType>, 4> kTypes = {
    {{0, DType::fp32}, {1, DType::fp64}, {2, DType::fp16}, {9, DType::bf16}}};  // cudnnDataType_t
constexpr int kDilations = 102, kStrides = 103, kPaddings = 105, kHeuristicsGraph = 201, kGraphOperations = 801,
              kTensorType = 901, kTensorDimensions = 902, kTensorStrides = 903;

struct Names {
  CudnnConvolution::Pass pass;
  int convolution, w, x, y;
};

std::optional<Names> names_of(int type) {
  switch (type) {
    case kOperationForward: return Names{CudnnConvolution::Pass::forward, 702, 703, 704, 705};
    case kOperationBackwardData: return Names{CudnnConvolution::Pass::backward_data, 708, 709, 710, 711};
    case kOperationBackwardFilter: return Names{CudnnConvolution::Pass::backward_filter, 714, 715, 716, 717};
    default: return std::nullopt;
  }
}

bool is_of_numbers(int type, int attribute) {
  if (type == kTensor) return attribute == kTensorDimensions || attribute == kTensorStrides;
  return type == kConvolution && (attribute == kDilations || attribute == kStrides || attribute == kPaddings);
}

}  // namespace

std::optional<std::int64_t> answer_of_device(const Asked& asked, const GpuDescription& described) {
  if (described.major != 9 || !asked.convolution || !asked.first) return std::nullopt;
  Gpu gpu;
  gpu.capability_major = described.major, gpu.capability_minor = described.minor;
  gpu.sm_count = described.multi_processor_count;
  if (asked.convolution->dtype == DType::fp64 || runs_native_depthwise(*asked.convolution, gpu)) return std::nullopt;
  const CudnnWorkspace answer = cudnn_workspace(*asked.convolution, gpu);
  return answer.recorded ? std::optional(answer.bytes) : std::nullopt;
}

void Questions::set(Descriptor descriptor, int attribute, std::int64_t count, const void* values) {
  const auto found = parts_.find(descriptor);
  if (found == parts_.end() || values == nullptr || count < 1) return;
  Part& part = found->second;
  if (is_of_numbers(part.type, attribute)) {
    std::vector<std::int64_t>& numbers = part.numbers[attribute];
    numbers.resize(static_cast<std::size_t>(count));
    std::memcpy(numbers.data(), values, numbers.size() * sizeof(std::int64_t));
  } else if (part.type == kTensor && attribute == kTensorType) {
    int type = 0;  // cudnnDataType_t
    std::memcpy(&type, values, sizeof type);
    part.numbers[attribute] = {type};
  } else if (names_of(part.type) && count == 1) {
    // Alphas and betas among them name no part, and are not looked for.
    std::memcpy(&part.operands[attribute], values, sizeof(Descriptor));
  } else if (part.type == kGraph && attribute == kGraphOperations) {
    part.asked = {};
    if (count == 1) part.asked.convolution = convolution_of(*static_cast<Descriptor const*>(values));
  } else if (part.type == kHeuristicsDescriptor && attribute == kHeuristicsGraph) {
    const auto graph = parts_.find(*static_cast<Descriptor const*>(values));
    part.asked = graph != parts_.end() ? graph->second.asked : Asked{};
  }
}

void Questions::answered(Descriptor heuristics, const Descriptor* configurations, std::int64_t count) {
  const auto asked = parts_.find(heuristics);
  if (asked == parts_.end() || configurations == nullptr) return;
  const std::optional<CudnnConvolution> convolution = asked->second.asked.convolution;
  for (std::int64_t i = 0; i < count; ++i) parts_[configurations[i]].asked = {convolution, i == 0};
}

Asked Questions::of(Descriptor configuration) const {
  const auto found = parts_.find(configuration);
  return found != parts_.end() ? found->second.asked : Asked{};
}

const std::vector<std::int64_t>* Questions::numbers_of(const Part& operation, int operand, int attribute,
                                                       std::size_t count) const {
  const auto named = operation.operands.find(operand);
  if (named == operation.operands.end()) return nullptr;
  const auto part = parts_.find(named->second);
  if (part == parts_.end()) return nullptr;
  const auto numbers = part->second.numbers.find(attribute);
  return numbers != part->second.numbers.end() && numbers->second.size() == count ? &numbers->second : nullptr;
}

std::optional<CudnnConvolution> Questions::convolution_of(Descriptor descriptor) const {
  const auto found = parts_.find(descriptor);
  const std::optional<Names> names = found != parts_.end() ? names_of(found->second.type) : std::nullopt;
  if (!names) return std::nullopt;
  const Part& operation = found->second;
  const auto* const x = numbers_of(operation, names->x, kTensorDimensions, 4);
  const auto* const w = numbers_of(operation, names->w, kTensorDimensions, 4);
  const auto* const y = numbers_of(operation, names->y, kTensorDimensions, 4);
  const auto* const type = numbers_of(operation, names->x, kTensorType, 1);
  const auto* const strides = numbers_of(operation, names->convolution, kStrides, 2);
  const auto* const paddings = numbers_of(operation, names->convolution, kPaddings, 2);
  const auto* const dilations = numbers_of(operation, names->convolution, kDilations, 2);
  if (!x || !w || !y || !type || !strides || !paddings || !dilations || (*w)[1] < 1) return std::nullopt;
  const auto* const dtype = std::ranges::find(kTypes, (*type)[0], &std::pair<int, DType>::first);
  if (dtype == kTypes.end()) return std::nullopt;
  CudnnConvolution c = {.pass = names->pass, .dtype = dtype->second};
  // A tensor of one channel, or of one pixel, lies the same both ways: any other one tells.
  for (const int tensor : {names->x, names->w, names->y}) {
    const auto* const size = numbers_of(operation, tensor, kTensorDimensions, 4);
    const auto* const step = numbers_of(operation, tensor, kTensorStrides, 4);
    c.channels_last =
        c.channels_last || (step != nullptr && (*step)[1] == 1 && (*size)[1] > 1 && (*size)[2] * (*size)[3] > 1);
  }
  c.n = (*x)[0], c.c = (*x)[1], c.h = (*x)[2], c.w = (*x)[3];
  c.k = (*w)[0], c.r = (*w)[2], c.s = (*w)[3], c.p = (*y)[2], c.q = (*y)[3];
  c.stride_h = (*strides)[0], c.stride_w = (*strides)[1], c.pad_h = (*paddings)[0], c.pad_w = (*paddings)[1];
  c.dilation_h = (*dilations)[0], c.dilation_w = (*dilations)[1], c.groups = (*x)[1] / (*w)[1];
  return c;
}

void write_workspace(std::int64_t bytes, const std::optional<CudnnConvolution>& convolution) {
  if (bytes <= 0 || session_directory().empty()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string path = session_directory() + "/workspaces." + std::to_string(getpid()) + ".tsv";
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return;
  std::string line;
  if (const auto& c = convolution) {
    const auto* const type = std::ranges::find(kTypes, c->dtype, &std::pair<int, DType>::second);
    line = std::string(kPasses[static_cast<std::size_t>(c->pass)]) + '\t' + std::to_string(type->first) +
           (c->channels_last ? "\tnhwc" : "\tnchw");
    for (const std::int64_t number : {c->n, c->c, c->h, c->w, c->k, c->r, c->s, c->p, c->q, c->stride_h, c->stride_w,
                                      c->pad_h, c->pad_w, c->dilation_h, c->dilation_w, c->groups})
      line += '\t' + std::to_string(number);
  }
  std::fprintf(file, "%lld\t%s\n", static_cast<long long>(bytes), line.c_str());
  std::fclose(file);
}

}  // namespace gpuplan::shadow::cudnn
