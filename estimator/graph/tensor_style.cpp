#include "estimator/graph/tensor_style.h"

#include <algorithm>
#include <array>
#include <utility>

namespace gpuplan {

TensorStyle tensor_style_of(std::string_view path, bool sequence) {
  using enum TensorStyle;
  using Rule = std::pair<std::string_view, TensorStyle>;
  constexpr std::array<Rule, 9> kPlan{{{"q_proj", colwise},
                                       {"k_proj", colwise},
                                       {"v_proj", colwise},
                                       {"gate_proj", colwise},
                                       {"up_proj", colwise},
                                       {"o_proj", rowwise},
                                       {"down_proj", rowwise},
                                       {"lm_head", head},
                                       {"embed_tokens", vocabulary}}};
  constexpr std::array<Rule, 4> kSequence{
      {{"q_norm", head_norm}, {"k_norm", head_norm}, {"self_attn", module}, {"mlp", module}}};
  const std::string_view name = path.substr(path.rfind('.') + 1);
  if (const auto* const found = std::ranges::find(kPlan, name, &Rule::first); found != kPlan.end())
    return found->second;
  if (!sequence) return whole;
  if (const auto* const found = std::ranges::find(kSequence, name, &Rule::first); found != kSequence.end())
    return found->second;
  return name.ends_with("norm") ? norm : whole;
}

}  // namespace gpuplan
