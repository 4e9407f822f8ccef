// The values of one autograd node while its backward runs: their storage, and which are views of others.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "estimator/graph/graph.h"
#include "estimator/schedule/gradient_tensor.h"

namespace gpuplan {

class NodeValues {
 public:
  explicit NodeValues(const Graph& graph) : graph_(graph) {}

  /// Nothing of it is there yet.
  void enter(const AutogradNode& node) {
    node_ = &node;
    values_.assign(static_cast<std::size_t>(node.locals.end - node.locals.begin), {});
  }
  std::size_t size() const { return values_.size(); }
  GradientTensor& operator[](std::size_t i) { return values_[i]; }
  const GradientTensor& operator[](std::size_t i) const { return values_[i]; }
  const BackwardValue& local(std::size_t i) const {
    return graph_.locals[static_cast<std::size_t>(node_->locals.begin) + i];
  }

  // A view without a kernel, of what it views.
  void resolve_alias(std::size_t i) {
    const BackwardValue& l = local(i);
    if (l.view == ViewKind::none || l.view == ViewKind::saved || may_copy(l.view) || values_[i].buffer != kNone) return;
    const auto base = static_cast<std::size_t>(l.alias_of);
    resolve_alias(base);
    const GradientTensor& of = values_[base];
    GradientTensor& g = values_[i];
    g = of;
    g.view = true;
    const Shape& from = local(base).shape;
    switch (l.view) {
      case ViewKind::permute:
        return lay_out(g, l.shape,
                       permuted(strides_of(of, from), graph_.strides[static_cast<std::size_t>(l.strides)], l.shape));
      case ViewKind::expand: return lay_out(g, l.shape, expanded(from, strides_of(of, from), l.shape));
      case ViewKind::narrow: {
        const Strides strides = strides_of(of, from);
        g.offset += l.start * strides[l.dim];
        return lay_out(g, l.shape, strides);
      }
      case ViewKind::same: g.offset += l.start; return;
      default: return;
    }
  }

  // reshape and contiguous, where the strides allow to do without a copy.
  bool is_a_view(std::size_t i) {
    const BackwardValue& l = local(i);
    const auto base = static_cast<std::size_t>(l.alias_of);
    const Shape& from = local(base).shape;
    const GradientTensor& of = values_[base];
    const Strides strides = strides_of(of, from);
    if (l.view == ViewKind::contiguous && !of.contiguous) return false;
    if (l.view == ViewKind::channels_last && !is_channels_last(from, strides)) return false;
    if (l.view == ViewKind::without_gaps && !of.contiguous &&
        !(suggested_format(from, strides) == MemoryFormat::channels_last && is_channels_last(from, strides)))
      return false;
    if (l.view >= ViewKind::to_contiguous && suggested_format(from, strides) != format_of(l.view)) return false;
    values_[i] = of;
    if (l.view != ViewKind::reshape) return true;
    const std::optional<Strides> viewed = view_strides(from, strides, l.shape);
    if (!viewed) {
      values_[i] = {};
      return false;
    }
    values_[i].view = true;
    lay_out(values_[i], l.shape, *viewed);
    return true;
  }

  // Where a kernel puts a result.
  void place(const Op& op, std::size_t i) {
    const BackwardValue& l = local(i);
    GradientTensor& g = values_[i];
    if (l.view == ViewKind::without_gaps) {
      const GradientTensor& of = values_[static_cast<std::size_t>(l.alias_of)];
      return lay_out(g, l.shape, strides_in(suggested_format(l.shape, strides_of(of, l.shape)), l.shape));
    }
    if (l.view != ViewKind::none && format_of(l.view) == MemoryFormat::channels_last)
      return lay_out(g, l.shape, strides_in(MemoryFormat::channels_last, l.shape));
    if (l.view != ViewKind::none) return;
    switch (l.placing) {
      case Placing::contiguous: return;
      case Placing::channels_last: return lay_out(g, l.shape, strides_in(MemoryFormat::channels_last, l.shape));
      case Placing::given: return lay_out(g, l.shape, graph_.strides[static_cast<std::size_t>(l.strides)]);
      case Placing::like:
      case Placing::suggested:
      case Placing::pointwise: break;
    }
    const std::span<const Operand> reads = graph_.at(op.reads);
    if (l.placing == Placing::suggested) {
      const StridedShape first = strided(reads.front());
      return lay_out(g, l.shape, strides_in(suggested_format(first.shape, first.strides), l.shape));
    }
    if (std::ranges::all_of(reads, [&](Operand r) { return contiguous(r); })) return;
    std::array<StridedShape, 4> operands;
    std::size_t count = 0;
    for (const Operand r : reads)
      if (count < operands.size()) operands[count++] = strided(r);
    lay_out(g, l.shape,
            l.placing == Placing::like ? strides_like(l.shape, operands[0].strides)
                                       : pointwise_strides(l.shape, {operands.data(), count}));
  }

  bool contiguous(Operand r) const {
    return r >= 0 ? graph_.tensor(r).contiguous : values_[static_cast<std::size_t>(~r)].contiguous;
  }
  StridedShape strided(Operand r) const {
    if (r >= 0) return {graph_.tensor(r).shape, graph_.tensor(r).strides};
    const Shape& shape = local(static_cast<std::size_t>(~r)).shape;
    return {shape, strides_of(values_[static_cast<std::size_t>(~r)], shape)};
  }

 private:
  const Graph& graph_;
  const AutogradNode* node_ = nullptr;
  std::vector<GradientTensor> values_;
};

}  // namespace gpuplan
