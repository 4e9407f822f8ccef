#include "estimator/graph/tensor_style.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpuplan {

TensorStyle tensor_style_of(std::string_view path) {
  using enum TensorStyle;
  constexpr std::array<std::pair<std::string_view, TensorStyle>, 9> kPlan{{{"q_proj", colwise},
                                                                           {"k_proj", colwise},
                                                                           {"v_proj", colwise},
                                                                           {"gate_proj", colwise},
                                                                           {"up_proj", colwise},
                                                                           {"o_proj", rowwise},
                                                                           {"down_proj", rowwise},
                                                                           {"lm_head", gathered},
                                                                           {"embed_tokens", vocabulary}}};
  const std::string_view name = path.substr(path.rfind('.') + 1);
  const auto* const found = std::ranges::find(kPlan, name, &std::pair<std::string_view, TensorStyle>::first);
  return found == kPlan.end() ? whole : found->second;
}

}  // namespace gpuplan
