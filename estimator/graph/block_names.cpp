#include "estimator/graph/block_names.h"

namespace gpuplan {

void BlockNames::give(std::string_view name, TensorId tensor) {
  given_.push_back(tensor);
  named_.push_back({std::string(name), {tensor}, {tensor}});
}

void BlockNames::name(std::string_view path, const Result& active, const Result& inactive) {
  constexpr std::size_t kUsual = 8;  // entries of a block
  if (named_.empty()) named_.reserve(kUsual);
  named_.push_back({std::string(path.substr(prefix_)), active, inactive});
}

const BlockNames::Named* BlockNames::find(const std::string& name) {
  for (; indexed_ < named_.size(); ++indexed_) index_[named_[indexed_].name] = indexed_;
  const auto it = index_.find(name);
  return it != index_.end() ? &named_[it->second] : nullptr;
}

std::vector<std::string> BlockNames::names() const {
  std::vector<std::string> names{"input"};
  for (const Named& n : named_) names.push_back(n.name);
  return names;
}

}  // namespace gpuplan
