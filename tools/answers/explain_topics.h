// The pages of `gpuplan explain` that are not about one layer.
#pragma once

#include <span>
#include <string_view>

namespace gpuplan {

struct ExplainTopic {
  std::string_view name;
  std::string_view summary;
  std::string_view text;
};
std::span<const ExplainTopic> explain_topics();

}  // namespace gpuplan
