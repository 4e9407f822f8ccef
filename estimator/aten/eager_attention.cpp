#include "estimator/aten/eager_attention.h"

#include <cmath>

#include "estimator/aten/linear.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/softmax.h"
#include "estimator/aten/transformers.h"
#include "estimator/aten/views.h"

namespace gpuplan::aten {
namespace {

// `attn_weights` is bound anew at every line, so that the scores live until what was made of them is cast.
TensorId probabilities(LayerBuilder& b, TensorId scores, const EagerAttention& a) {
  if (a.softmax == EagerSoftmax::fp32) {
    const TensorId p = b.cast(softmax(b, scores, -1, DType::fp32), b.dtype(a.query));
    b.hold({scores});
    return p;
  }
  const TensorId p = softmax(b, scores, -1);
  return a.softmax == EagerSoftmax::value ? b.cast(p, b.dtype(a.value)) : p;
}

// transformers 4.56, models/gpt2: weights / torch.full([], ...), then torch.where(triangle, weights, number).
struct Triangle {
  TensorId weights = kNone, number = kNone;
};

Triangle divided_and_masked(LayerBuilder& b, TensorId weights) {
  const DType dtype = b.dtype(weights);
  const Shape shape = b.shape(weights);
  const Elementwise each{shape.elements()};
  const TensorId scaled = binary(b, Binary::div, weights, b.emit(Operator::full, Fill{1}, {}, Shape{}, dtype));
  const TensorId number = b.emit(Operator::full, Fill{1}, {}, Shape{}, dtype);
  const TensorId y = b.emit(Operator::where, each, {scaled, number}, shape, dtype);
  if (NodeBuilder node = b.node("WhereBackward0", y, {scaled})) {
    const OutputSpec results[] = {{Shape{}, dtype}, {shape, dtype}};  // torch.where makes a tensor of its zero
    node.give(scaled, node.run_many(Operator::where, each, {node.grad()}, results)[1]);
  }
  return {y, number};
}

double root_of_size(const LayerBuilder& b, TensorId query) {
  return std::sqrt(static_cast<double>(b.shape(query)[-1]));
}

EagerResult distilbert_attention(LayerBuilder& b, const EagerAttention& a) {
  const TensorId query = binary_number(b, Binary::div, a.query, root_of_size(b, a.query));
  TensorId scores = matmul(b, query, transpose(b, a.key, -2, -1));
  const Shape shape = b.shape(scores), mask = b.shape(a.mask);
  const TensorId zeros = no_grad(b, Operator::eq, {a.mask}, mask, DType::boolean, {{Attribute::other, 0}});
  const TensorId hidden = b.alias(zeros, {mask[0], 1, 1, mask[1]}, contiguous_strides({mask[0], 1, 1, mask[1]}));
  scores = masked_fill(b, scores, expand(b, hidden, shape), lowest(b.dtype(scores)));
  const TensorId weights = dropout(b, softmax(b, scores, -1), a.dropout, b.training());
  const TensorId y = contiguous(b, transpose(b, matmul(b, weights, a.value), 1, 2));
  return {y, weights, {query, scores, zeros}};
}

}  // namespace

EagerResult eager_attention(LayerBuilder& b, const EagerAttention& a) {
  if (a.computed_by == EagerClass::distilbert) return distilbert_attention(b, a);
  const bool bert = a.computed_by == EagerClass::bert;
  TensorId weights = matmul(b, a.query, transpose(b, a.key, -2, -1));
  TensorId number = kNone;
  if (a.softmax == EagerSoftmax::value && b.before(kTransformers5)) {
    const Triangle t = divided_and_masked(b, weights);
    weights = t.weights, number = t.number;
  } else if (bert) {
    weights = binary_number(b, Binary::div, weights, root_of_size(b, a.query));
  } else {  // also by 1.0, of Whisper
    weights = binary_number(b, Binary::mul, weights, 1 / root_of_size(b, a.query));
  }
  if (a.softcap != 0) {
    weights = unary(b, binary_number(b, Binary::div, weights, a.softcap), kTanh);
    weights = binary_number(b, Binary::mul, weights, a.softcap);
  }
  if (a.mask != kNone) weights = add(b, weights, a.mask);
  const TensorId scores = weights;
  weights = dropout(b, probabilities(b, weights, a), a.dropout, b.training());
  const TensorId product = matmul(b, weights, a.value);
  if (number != kNone) b.hold({number});
  const TensorId y = contiguous(b, transpose(b, product, 1, 2));
  return {y, weights, bert ? std::vector{scores} : std::vector<TensorId>{}};
}

}  // namespace gpuplan::aten
