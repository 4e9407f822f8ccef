// The names of one Python frame: what a block was given, and what its entries returned under their paths in it.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "estimator/graph/graph.h"

namespace gpuplan {

class BlockNames {
 public:
  /// What an entry's name stands for.
  struct Result {
    TensorId tensor = kNone;
    const std::vector<TensorId>* many = nullptr;  // several outputs, or null
    bool handed_on = false;                       // the entry is of the other mode: every output is `tensor`
  };
  struct Named {
    std::string name;
    Result active;    // in the run's mode
    Result inactive;  // to entries that run in the other mode only
  };

  BlockNames() = default;
  /// `path`: of the block.
  BlockNames(std::string_view path, std::span<const TensorId> given)
      : prefix_(path.empty() ? 0 : path.size() + 1), given_(given.begin(), given.end()) {}

  void give(std::string_view name, TensorId tensor);
  /// Names the result of the entry at `path`, which begins with the block's.
  void name(std::string_view path, const Result& active, const Result& inactive);

  const std::vector<TensorId>& given() const { return given_; }
  /// The latest of that name, until the next is named; nullptr when there is none.
  const Named* find(const std::string& name);
  /// All that find() knows, for a message.
  std::vector<std::string> names() const;

 private:
  std::size_t prefix_ = 0;  // length of the block's path and its dot
  std::vector<TensorId> given_;
  std::vector<Named> named_;
  std::unordered_map<std::string, std::size_t> index_;  // of the first `indexed_` names; most frames look nothing up
  std::size_t indexed_ = 0;
};

}  // namespace gpuplan
