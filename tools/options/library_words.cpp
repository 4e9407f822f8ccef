#include "tools/options/library_words.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace gpuplan {
namespace {

constexpr std::array<std::string_view, 3> kTrainers = {"trl-sft", "trl-dpo", "torchtune"};
constexpr std::array<std::string_view, 4> kOfWeights = {"torchao", "hqq", "gptq", "awq"};

}  // namespace

bool is_library_like(const std::string& like) {
  return like.find('(') != std::string::npos || std::ranges::find(kTrainers, like) != kTrainers.end();
}

bool is_library_form(const std::string& weights) {
  const std::size_t colon = weights.find(':');
  return weights.find("Config") != std::string::npos ||
         (colon != std::string::npos && std::ranges::find(kOfWeights, weights.substr(colon + 1)) != kOfWeights.end());
}

}  // namespace gpuplan
