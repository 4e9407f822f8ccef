// What a model calls, at any depth.
#pragma once

#include <algorithm>
#include <variant>

#include "estimator/spec/model.h"

namespace gpuplan {

/// Whether any call of a layer is `wanted`: of the entry and the call. Branches of a parallel are not looked into.
template <class Wanted>
bool has_call(const Body& body, const Wanted& wanted) {
  return std::ranges::any_of(body, [&](const Node& node) {
    if (const auto* call = std::get_if<LayerCall>(&node.what)) return wanted(node, *call);
    if (const auto* block = std::get_if<Block>(&node.what)) return has_call(block->body, wanted);
    if (const auto* repeat = std::get_if<Repeat>(&node.what)) return has_call(repeat->items, wanted);
    if (const auto* residual = std::get_if<Residual>(&node.what)) return has_call(residual->body, wanted);
    return false;
  });
}

}  // namespace gpuplan
