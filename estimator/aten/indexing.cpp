#include "estimator/aten/indexing.h"

#include <algorithm>
#include <string>
#include <vector>

#include "estimator/aten/opaque_kernel.h"
#include "estimator/aten/pointwise.h"
#include "estimator/aten/views.h"
#include "estimator/base/integers.h"
#include "estimator/operators/cub.h"

namespace gpuplan::aten {
namespace {

struct Look {
  Shape indices;  // broadcast
  Shape out;
  std::int64_t slice = 1;  // elements that one index stands for
};

Look look_of(const LayerBuilder& b, const Shape& in, std::span<const TensorId> indices, int dim) {
  const int count = static_cast<int>(indices.size());
  if (dim + count > in.rank())
    b.fail(std::to_string(count) + " indices from dimension " + std::to_string(dim) + " on, the input is " +
           to_string(in));
  Look look;
  look.indices = b.shape(indices[0]);
  for (const TensorId i : indices) {
    if (b.dtype(i) != DType::int64) b.fail("expects int64 indices, got " + std::string(name_of(b.dtype(i))));
    look.indices = broadcast(b, look.indices, b.shape(i));
  }
  if (in.rank() - count + look.indices.rank() > Shape::kMaxRank)
    b.fail("the index " + to_string(look.indices) + " has too many dimensions");
  for (int d = 0; d < dim; ++d) look.out.push_back(in[d]);
  for (const std::int64_t n : look.indices.sizes()) look.out.push_back(n);
  for (int d = dim + count; d < in.rank(); ++d) look.out.push_back(in[d]);
  look.slice = in.elements(dim + count, in.rank());
  return look;
}

// Several indices that do not lie alike when they are expanded are each copied, for the kernel to step through them as
// one (aten/src/ATen/native/TensorAdvancedIndexing.cpp, AdvancedIndex).
std::vector<TensorId> alike(LayerBuilder& b, std::span<const TensorId> indices, const Shape& shape) {
  std::vector<TensorId> wide;
  bool same = true;
  for (const TensorId i : indices) {
    const Shape in = b.shape(i);
    Strides strides;
    for (int d = 0; d < shape.rank(); ++d) {
      const int from = d - (shape.rank() - in.rank());
      strides.set(d, from < 0 || in[from] != shape[d] ? 0 : b.strides(i)[from]);
    }
    wide.push_back(in == shape ? i : b.alias(i, shape, strides));
    same = same && b.strides(wide.back()) == b.strides(wide.front());
  }
  if (same) return wide;
  for (TensorId& i : wide)
    if (!b.contiguous(i)) i = b.emit(Operator::clone, Copy{shape.elements()}, {i}, shape, DType::int64);
  return wide;
}

// index_put with accumulation (aten/src/ATen/native/cuda/Indexing.cu, index_put_with_sort_kernel): each index wrapped
// and multiplied by its stride, later ones added to the first; a contiguous copy of values that are not; then the sort
// with its two results and the range that it carries. Indices of the host are wrapped and added there, and copied once.
void put(NodeBuilder& node, const LayerBuilder& b, Operand sum, std::span<const TensorId> indices, const Look& look,
         bool of_host) {
  const std::int64_t n = look.indices.elements();
  const OutputSpec line{look.indices, DType::int64};
  Operand linear = of_host ? node.run(Operator::_to_copy, Copy{n}, {}, look.indices, DType::int64) : 0;
  for (std::size_t i = 0; !of_host && i < indices.size(); ++i) {
    const Operand wrapped = node.run_many(Operator::remainder, Marker{}, {indices[i]}, std::span(&line, 1))[0];
    const Operand stepped = node.run_many(Operator::mul, Marker{}, {wrapped}, std::span(&line, 1))[0];
    if (i == 0) linear = stepped;
    if (i > 0) node.hold({linear, wrapped, stepped});
  }
  const Operand values = node.contiguous(node.grad());
  const std::int64_t each = checked_mul(n, size_of(DType::int64));
  const std::int64_t largest = std::max<std::int64_t>((node.shape(sum).elements() - 1) / look.slice, 1);
  ScratchProgram sort;
  ScratchWriter w(sort);
  for (int i = 0; i < 3; ++i) w.allocate(each);
  w.allocate(cub_sort_bytes(n, largest, b.gpu(), kNewestPyTorch));
  w.release_all();
  node.run_in_place(Operator::_index_put_impl_, opaque_kernel(sort, look.out.elements()),
                    {sum, values, of_host ? linear : indices[0]});
  node.hold({values, linear});
}

Operand part_of(NodeBuilder& node, Operand whole, const Part& part) {
  Shape shape = node.shape(whole);
  for (int d = 0; d < shape.rank(); ++d) {
    if (part.size[d] == shape[d]) continue;
    shape.set(d, part.size[d]);
    whole = node.narrow(whole, shape, d, part.start[d]);
  }
  return whole;
}

Operator operator_of(PartChange change) {
  switch (change) {
    case PartChange::copy: return Operator::copy_;
    case PartChange::fill: return Operator::fill_;
    case PartChange::add: return Operator::add_;
    case PartChange::sub: return Operator::sub_;
  }
  return Operator::copy_;
}

}  // namespace

TensorId index(LayerBuilder& b, TensorId x, std::span<const TensorId> indices, int dim, bool of_host) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const Look look = look_of(b, in, indices, dim);
  std::vector<TensorId> reads{x};
  for (const TensorId i : alike(b, indices, look.indices)) reads.push_back(i);
  const TensorId y = b.emit(Operator::index, Copy{look.out.elements()}, reads, look.out, dtype);
  if (dim > 0) b.attributes({{Attribute::dim, dim}});
  if (NodeBuilder node = b.node("IndexBackward0", y, {x})) {
    for (const TensorId i : indices)
      if (!of_host) node.save(i);
    const Operand sum = node.run(Operator::new_zeros, Fill{in.elements()}, {}, in, dtype);
    put(node, b, sum, indices, look, of_host);
    node.give(x, sum);
  }
  return y;
}

TensorId change_part(LayerBuilder& b, PartChange change, TensorId x, const Part& part, TensorId value, double number) {
  const Shape in = b.shape(x);
  const DType dtype = b.dtype(x);
  const std::int64_t elements = part.size.elements();
  const bool wants = b.requires_grad(x) || (value != kNone && b.requires_grad(value));
  const Strides lies = b.strides(x);
  TensorId y = kNone;
  if (value != kNone)
    y = b.emit_in_place(operator_of(change), Copy{elements}, {x, value});
  else
    y = b.emit_in_place(operator_of(change), Fill{elements}, {x});
  std::vector<AttributeValue> attributes;
  if (value == kNone) attributes.emplace_back(change == PartChange::fill ? Attribute::value : Attribute::other, number);
  for (int d = 0; d < in.rank(); ++d)
    if (part.size[d] != in[d])
      attributes.insert(attributes.end(),
                        {{Attribute::dim, d}, {Attribute::start, part.start[d]}, {Attribute::size, part.size[d]}});
  b.attributes(attributes);
  if (!wants) return y;
  const std::vector<TensorId> inputs = value != kNone ? std::vector<TensorId>{x, value} : std::vector<TensorId>{x};
  if (NodeBuilder node = b.node("CopySlices", std::span<const TensorId>(&y, 1), inputs)) {
    const Operand whole =
        node.run(Operator::clone, Copy{in.elements()}, {node.grad()}, {in, dtype, Placing::given, lies});
    const Operand changed = node.run(Operator::clone, Copy{elements}, {part_of(node, whole, part)}, part.size, dtype);
    if (change == PartChange::copy || change == PartChange::fill) {
      const Operand zeros = node.run(Operator::zeros_like, Fill{elements}, {}, part.size, dtype);
      node.run_in_place(Operator::copy_, Copy{elements}, {part_of(node, whole, part), zeros});
    } else {
      node.run_in_place(Operator::copy_, Copy{elements}, {part_of(node, whole, part), changed});
    }
    node.hold({changed});
    if (node.needs(x)) node.give(x, whole);
    if (value != kNone && node.needs(value)) {
      const Operand minus = change == PartChange::sub
                                ? node.run(Operator::neg, Elementwise{elements}, {changed}, part.size, dtype)
                                : changed;
      node.give(value, node.reshape(minus, b.shape(value)));
    }
  }
  return y;
}

}  // namespace gpuplan::aten
