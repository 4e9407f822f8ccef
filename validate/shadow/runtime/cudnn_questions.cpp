#include "validate/shadow/runtime/cudnn_questions.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <mutex>

#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow::cudnn {
namespace {

// cudnnBackendDescriptorType_t
constexpr int kConvolution = 1, kOperationForward = 10, kOperationBackwardFilter = 11, kOperationBackwardData = 12,
              kGraph = 15, kTensor = 17;
// cudnnBackendAttributeName_t
constexpr int kDilations = 102, kStrides = 103, kPaddings = 105, kHeuristicsGraph = 201, kGraphOperations = 801,
              kTensorType = 901, kTensorDimensions = 902, kTensorStrides = 903;

struct Names {
  const char* pass;
  int convolution, w, x, y;
};

std::optional<Names> names_of(int type) {
  switch (type) {
    case kOperationForward: return Names{"forward", 702, 703, 704, 705};
    case kOperationBackwardData: return Names{"backward_data", 708, 709, 710, 711};
    case kOperationBackwardFilter: return Names{"backward_filter", 714, 715, 716, 717};
    default: return std::nullopt;
  }
}

bool is_of_numbers(int type, int attribute) {
  if (type == kTensor) return attribute == kTensorDimensions || attribute == kTensorStrides;
  return type == kConvolution && (attribute == kDilations || attribute == kStrides || attribute == kPaddings);
}

}  // namespace

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
    part.line = count == 1 ? line_of_operation(*static_cast<Descriptor const*>(values)) : "";
  } else if (part.type == kHeuristicsDescriptor && attribute == kHeuristicsGraph) {
    const auto graph = parts_.find(*static_cast<Descriptor const*>(values));
    part.line = graph != parts_.end() ? graph->second.line : "";
  }
}

void Questions::answered(Descriptor heuristics, const Descriptor* configurations, std::int64_t count) {
  const auto asked = parts_.find(heuristics);
  if (asked == parts_.end() || configurations == nullptr) return;
  const std::string line = asked->second.line;
  for (std::int64_t i = 0; i < count; ++i) parts_[configurations[i]].line = line;
}

std::string Questions::line_of(Descriptor configuration) const {
  const auto found = parts_.find(configuration);
  return found != parts_.end() ? found->second.line : "";
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

std::string Questions::line_of_operation(Descriptor descriptor) const {
  const auto found = parts_.find(descriptor);
  if (found == parts_.end()) return "";
  const Part& operation = found->second;
  const std::optional<Names> names = names_of(operation.type);
  if (!names) return "";
  const auto* const x = numbers_of(operation, names->x, kTensorDimensions, 4);
  const auto* const w = numbers_of(operation, names->w, kTensorDimensions, 4);
  const auto* const y = numbers_of(operation, names->y, kTensorDimensions, 4);
  const auto* const type = numbers_of(operation, names->x, kTensorType, 1);
  const auto* const strides = numbers_of(operation, names->convolution, kStrides, 2);
  const auto* const paddings = numbers_of(operation, names->convolution, kPaddings, 2);
  const auto* const dilations = numbers_of(operation, names->convolution, kDilations, 2);
  if (!x || !w || !y || !type || !strides || !paddings || !dilations || (*w)[1] < 1) return "";
  // A tensor of one channel, or of one pixel, lies the same both ways: any other one tells.
  bool last = false;
  for (const int tensor : {names->x, names->w, names->y}) {
    const auto* const size = numbers_of(operation, tensor, kTensorDimensions, 4);
    const auto* const step = numbers_of(operation, tensor, kTensorStrides, 4);
    last = last || (step != nullptr && (*step)[1] == 1 && (*size)[1] > 1 && (*size)[2] * (*size)[3] > 1);
  }
  std::string line = std::string(names->pass) + '\t' + std::to_string((*type)[0]) + (last ? "\tnhwc" : "\tnchw");
  for (const std::int64_t number :
       {(*x)[0], (*x)[1], (*x)[2], (*x)[3], (*w)[0], (*w)[2], (*w)[3], (*y)[2], (*y)[3], (*strides)[0], (*strides)[1],
        (*paddings)[0], (*paddings)[1], (*dilations)[0], (*dilations)[1], (*x)[1] / (*w)[1]})
    line += '\t' + std::to_string(number);
  return line;
}

void write_workspace(std::int64_t bytes, const std::string& line) {
  if (bytes <= 0 || session_directory().empty()) return;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string path = session_directory() + "/workspaces." + std::to_string(getpid()) + ".tsv";
  std::FILE* const file = std::fopen(path.c_str(), "ae");
  if (file == nullptr) return;
  std::fprintf(file, "%lld\t%s\n", static_cast<long long>(bytes), line.c_str());
  std::fclose(file);
}

}  // namespace gpuplan::shadow::cudnn
