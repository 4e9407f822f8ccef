#include "estimator/graph/scope.h"

namespace gpuplan {

void Scope::give(std::string_view name, TensorId tensor) {
  given_.push_back(tensor);
  named_.push_back({std::string(name), {tensor}, {tensor}});
}

void Scope::name(std::string_view path, const Result& here, const Result& there) {
  constexpr std::size_t kUsual = 8;  // entries of a block
  if (named_.empty()) named_.reserve(kUsual);
  named_.push_back({std::string(path.substr(prefix_)), here, there});
}

const Scope::Named* Scope::find(const std::string& name) {
  for (; indexed_ < named_.size(); ++indexed_) index_[named_[indexed_].name] = indexed_;
  const auto it = index_.find(name);
  return it != index_.end() ? &named_[it->second] : nullptr;
}

std::vector<std::string> Scope::names() const {
  std::vector<std::string> names{"input"};
  for (const Named& n : named_) names.push_back(n.name);
  return names;
}

}  // namespace gpuplan
