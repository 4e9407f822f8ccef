#include "estimator/aten/linear.h"

#include <string>

#include "estimator/aten/views.h"

namespace gpuplan::aten {
namespace {

// Of an operand that is the transposition of a row-major matrix: its gradient is computed transposed, so that it lies
// like the operand (torch/csrc/autograd/FunctionsManual.cpp, mm_mat1_grad, mm_mat2_grad).
bool column_major(const LayerBuilder& b, TensorId t) {
  return b.strides(t)[0] == 1 && b.strides(t)[1] == b.shape(t)[0];
}

OutputSpec gradient_like(const LayerBuilder& b, TensorId t) {
  OutputSpec spec{b.shape(t), b.dtype(t)};
  if (column_major(b, t)) {
    spec.placing = Placing::given;
    spec.strides = b.strides(t);
  }
  return spec;
}

struct Product {
  TensorId x = kNone, y = kNone, result = kNone;
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  DType dtype = DType::fp32;
};

Operand gradient_of_x(NodeBuilder& node, const LayerBuilder& b, const Product& p, Operator op) {
  if (!node.needs(p.x)) return 0;
  const Gemm gemm{.batch = p.batch, .m = p.m, .n = p.k, .k = p.n, .dtype = p.dtype, .gradient = GemmGradient::of_first};
  return node.run(op, gemm, {node.grad(), p.y}, gradient_like(b, p.x));
}

Operand gradient_of_y(NodeBuilder& node, const LayerBuilder& b, const Product& p, Operator op) {
  if (!node.needs(p.y)) return 0;
  const Gemm gemm{
      .batch = p.batch, .m = p.k, .n = p.n, .k = p.m, .dtype = p.dtype, .gradient = GemmGradient::of_second};
  return node.run(op, gemm, {node.grad(), p.x}, gradient_like(b, p.y));
}

// The gradients of a product without a bias: formulas are sorted by name, "mat2" before "self".
void product_backward(NodeBuilder& node, const LayerBuilder& b, const Product& p, Operator op) {
  if (node.needs(p.x)) node.save(p.y);  // unpacked in the order of their names, as all saved tensors
  const Operand dy = gradient_of_y(node, b, p, op);
  const Operand dx = gradient_of_x(node, b, p, op);
  if (node.needs(p.x)) node.give(p.x, dx);
  if (node.needs(p.y)) node.give(p.y, dy);
}

void check_inner(const LayerBuilder& b, TensorId x, TensorId y) {
  if (b.shape(x)[-1] != b.shape(y)[-2])
    b.fail("cannot multiply " + to_string(b.shape(x)) + " by " + to_string(b.shape(y)) + ": " +
           std::to_string(b.shape(x)[-1]) + " columns against " + std::to_string(b.shape(y)[-2]) + " rows");
  if (b.dtype(x) != b.dtype(y))
    b.fail("its operands are " + std::string(name_of(b.dtype(x))) + " and " + std::string(name_of(b.dtype(y))) +
           ", expected one type");
}

// cuBLASLt adds the bias where the matrix has more than one row and column (aten/src/ATen/native/cuda/Blas.cpp).
bool bias_in_epilogue(const LayerBuilder& b, TensorId y) { return b.shape(y)[0] > 1 && b.shape(y)[1] > 1; }

// cuBLAS takes two matrices, or batches of them, as they lie or gets copies.
Gemm gemm_of(const LayerBuilder& b, TensorId x, TensorId y, Gemm gemm) {
  const auto copied = [&](TensorId t) { return fits_cublas({b.shape(t), b.strides(t)}) ? 0 : b.shape(t).elements(); };
  gemm.first_copied = copied(x);
  gemm.second_copied = copied(y);
  return gemm;
}

// F.linear's second factor is its weight turned, which a Conv1D's is not.
bool saves_input(const LayerBuilder& b, TensorId y) { return b.run().linear_saves_input && !b.contiguous(y); }

// bias + x y, of two matrices. `names` of the autograd node: mat1 (x), mat2 (y), self (the bias).
TensorId add_product(LayerBuilder& b, TensorId bias, TensorId x, TensorId y) {
  check_inner(b, x, y);
  Product p{.x = x, .y = y, .m = b.shape(x)[0], .n = b.shape(y)[1], .k = b.shape(x)[1], .dtype = b.dtype(x)};
  const Shape out{p.m, p.n};
  const Gemm gemm =
      gemm_of(b, x, y, {.m = p.m, .n = p.n, .k = p.k, .bias_epilogue = bias_in_epilogue(b, y), .dtype = p.dtype});
  p.result = b.emit(Operator::addmm, gemm, {x, y, bias}, out, p.dtype);
  if (NodeBuilder node = b.node("AddmmBackward0", p.result, {x, y, bias})) {
    if (node.needs(y) || saves_input(b, y)) node.save(x);
    const Operand dx = gradient_of_x(node, b, p, Operator::mm);
    const Operand dy = gradient_of_y(node, b, p, Operator::mm);
    if (node.needs(x)) node.give(x, dx);
    if (node.needs(y)) node.give(y, dy);
    if (node.needs(bias)) node.give(bias, p.m == 1 ? node.reshape(node.grad(), b.shape(bias)) : node.grad());
  }
  return p.result;
}

TensorId transposed(LayerBuilder& b, TensorId weight) { return transpose(b, weight, 0, 1); }

// LinearAlgebra.cpp, should_fold, of an N-D tensor and a matrix: whether N-D becomes one tall matrix. A matrix that
// says that it requires a gradient makes it one, where none is computed, too; before 2.0, all but batches of transposed
// ones.
bool folds(const LayerBuilder& b, TensorId x, TensorId matrix, bool below_autograd) {
  const Shape shape = b.shape(x);
  const Strides strides = b.strides(x);
  if (b.before(200))
    return shape.rank() > 3 || strides[shape.rank() - 1] == 1 || strides[0] != shape.elements(1, shape.rank());
  if ((b.says_requires_grad(matrix) && !below_autograd) || b.contiguous(x)) return true;
  for (int i = 0; i < shape.rank() - 2; ++i)
    if (strides[i] != strides[i + 1] * shape[i + 1]) return false;
  return true;
}

// The same of a matrix by an N-D tensor, whose transposition it would be.
bool folds_transposed(const LayerBuilder& b, TensorId matrix, TensorId x, bool below_autograd) {
  return b.before(200) ? folds(b, x, matrix, below_autograd) : b.says_requires_grad(matrix) && !below_autograd;
}

Shape leading(const Shape& shape) {
  Shape out;
  for (int i = 0; i < shape.rank() - 2; ++i) out.push_back(shape[i]);
  return out;
}

Shape broadcast_leading(const LayerBuilder& b, const Shape& x, const Shape& y) {
  const Shape p = leading(x), q = leading(y);
  Shape out;
  const int rank = std::max(p.rank(), q.rank());
  for (int i = rank; i > 0; --i) {
    const std::int64_t m = i <= p.rank() ? p[-i] : 1;
    const std::int64_t n = i <= q.rank() ? q[-i] : 1;
    if (m != n && m != 1 && n != 1)
      b.fail("the leading sizes of " + to_string(x) + " and " + to_string(y) + " do not broadcast");
    out.push_back(m == 1 ? n : m);
  }
  return out;
}

// A batched operand as [b, rows, columns]: expand and reshape.
TensorId as_batch(LayerBuilder& b, TensorId t, const Shape& batch) {
  Shape full = batch;
  full.push_back(b.shape(t)[-2]);
  full.push_back(b.shape(t)[-1]);
  const TensorId wide = expand(b, t, full);
  return reshape(b, wide, {batch.elements(), full[-2], full[-1]});
}

TensorId product(LayerBuilder& b, TensorId x, TensorId y) {
  check_inner(b, x, y);
  Product p{.x = x, .y = y, .m = b.shape(x)[0], .n = b.shape(y)[1], .k = b.shape(x)[1], .dtype = b.dtype(x)};
  const Gemm gemm = gemm_of(b, x, y, {.m = p.m, .n = p.n, .k = p.k, .dtype = p.dtype});
  p.result = b.emit(Operator::mm, gemm, {x, y}, {p.m, p.n}, p.dtype);
  if (NodeBuilder node = b.node("MmBackward0", p.result, {x, y})) {
    if (saves_input(b, y) && !node.needs(y)) node.save(x);
    product_backward(node, b, p, Operator::mm);
  }
  return p.result;
}

TensorId batched_product(LayerBuilder& b, TensorId x, TensorId y) {
  check_inner(b, x, y);
  const Shape s = b.shape(x), t = b.shape(y);
  Product p{.x = x, .y = y, .batch = s[0], .m = s[1], .n = t[2], .k = s[2], .dtype = b.dtype(x)};
  const Gemm gemm =
      gemm_of(b, x, y, {.batch = p.batch, .m = p.m, .n = p.n, .k = p.k, .dtype = p.dtype, .batched = true});
  p.result = b.emit(Operator::bmm, gemm, {x, y}, {p.batch, p.m, p.n}, p.dtype);
  if (NodeBuilder node = b.node("BmmBackward0", p.result, {x, y})) {
    const Gemm of_y{.batch = p.batch,
                    .m = p.k,
                    .n = p.n,
                    .k = p.m,
                    .dtype = p.dtype,
                    .gradient = GemmGradient::of_second,
                    .batched = true};
    const Gemm of_x{.batch = p.batch,
                    .m = p.m,
                    .n = p.k,
                    .k = p.n,
                    .dtype = p.dtype,
                    .gradient = GemmGradient::of_first,
                    .batched = true};
    Operand dy = 0, dx = 0;
    if (node.needs(x)) node.save(y);
    if (node.needs(y)) dy = node.run(Operator::bmm, of_y, {node.grad(), x}, t, p.dtype);
    if (node.needs(x)) dx = node.run(Operator::bmm, of_x, {node.grad(), y}, s, p.dtype);
    if (node.needs(x)) node.give(x, dx);
    if (node.needs(y)) node.give(y, dy);
  }
  return p.result;
}

}  // namespace

TensorId mm(LayerBuilder& b, TensorId x, TensorId y) {
  y = b.cached_cast(y);
  x = b.cached_cast(x);
  return product(b, x, y);
}

TensorId bmm(LayerBuilder& b, TensorId x, TensorId y) {
  y = b.cached_cast(y);
  x = b.cached_cast(x);
  return batched_product(b, x, y);
}

TensorId matmul(LayerBuilder& b, TensorId x, TensorId y) {
  const TensorId q = b.cached_cast(y);
  const TensorId p = b.cached_cast(x);
  const TensorId z = matmul_as_given(b, p, q);
  // The casts are arguments of the call, whose copies of batched operands do not replace them.
  if (p != x && b.shape(p).rank() > 2) b.hold({p});
  if (q != y && b.shape(q).rank() > 2) b.hold({q});
  return z;
}

namespace {

// [..., m, k] by [k, n] as one product of a tall matrix.
TensorId tall_product(LayerBuilder& b, TensorId x, TensorId matrix) {
  Shape out = b.shape(x);
  const TensorId flat = reshape(b, x, {out.elements(0, out.rank() - 1), out[-1]});
  out.set(-1, b.shape(matrix)[1]);
  return view(b, product(b, flat, matrix), out);
}

// [m, k] by [..., k, n] as that of their transpositions, whose result is copied back (LinearAlgebra.cpp, _matmul_impl).
TensorId tall_product_transposed(LayerBuilder& b, TensorId matrix, TensorId x) {
  const TensorId rows = transpose(b, x, -2, -1);
  const TensorId columns = transposed(b, matrix);
  Shape out = b.shape(rows);
  const TensorId flat = reshape(b, rows, {out.elements(0, out.rank() - 1), out[-1]});
  out.set(-1, b.shape(columns)[1]);
  const TensorId tall = view(b, product(b, flat, columns), out);
  const TensorId z = contiguous(b, transpose(b, tall, -2, -1));
  b.hold({tall});  // C++'s variables go in reverse order
  b.hold({flat});
  return z;
}

}  // namespace

TensorId matmul_as_given(LayerBuilder& b, TensorId x, TensorId y, bool below_autograd) {
  const Shape s = b.shape(x), t = b.shape(y);
  if (s.rank() < 2 || t.rank() < 2) b.fail("expects operands of two or more dimensions");
  if (s.rank() == 2 && t.rank() == 2) return product(b, x, y);
  check_inner(b, x, y);
  if (t.rank() == 2 && folds(b, x, y, below_autograd)) return tall_product(b, x, y);
  if (s.rank() == 2 && folds_transposed(b, x, y, below_autograd)) return tall_product_transposed(b, x, y);
  const Shape batch = broadcast_leading(b, s, t);
  const TensorId p = as_batch(b, x, batch);
  const TensorId q = as_batch(b, y, batch);
  Shape out = batch;
  out.push_back(s[-2]);
  out.push_back(t[-1]);
  return view(b, batched_product(b, p, q), out);
}

TensorId addmm(LayerBuilder& b, TensorId bias, TensorId x, TensorId weight) {
  // Arguments of a wrapped function are cast from the last to the first.
  weight = b.cached_cast(weight);
  x = b.cached_cast(x);
  bias = b.cached_cast(bias);
  return add_product(b, bias, x, weight);
}

TensorId linear(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias) {
  bias = b.cached_cast(bias);
  weight = b.cached_cast(weight);
  const TensorId given = x;
  x = b.cached_cast(x);
  const Shape in = b.shape(x);
  if (bias == kNone) {
    const TensorId y = matmul(b, in.rank() == 1 ? unsqueeze(b, x, 0) : x, transposed(b, weight));
    if (x != given) b.hold({x});  // autocast's cast, an argument, beside the copy that a product of gaps is of
    return y;
  }
  Shape out = in;
  out.set(-1, b.shape(weight)[0]);
  if (in.rank() == 2) return add_product(b, bias, x, transposed(b, weight));
  if (b.contiguous(x)) {
    const TensorId flat = view(b, x, {in.elements(0, in.rank() - 1), in[-1]});
    return view(b, add_product(b, bias, flat, transposed(b, weight)), out);
  }
  TensorId y = matmul(b, x, transposed(b, weight));
  const TensorId sum = b.emit_in_place(Operator::add_, Elementwise{out.elements()}, {y, bias});
  b.hold({x});  // autocast's cast, an argument
  if (NodeBuilder node = b.node("AddBackward0", sum, {y, bias})) {
    node.give(y, node.grad());
    if (node.needs(bias)) node.give(bias, node.grad());
  }
  return sum;
}

TensorId linear_below_autograd(LayerBuilder& b, TensorId x, TensorId weight, TensorId bias) {
  if (b.contiguous(x)) return linear(b, x, weight, bias);
  const TensorId y = matmul_as_given(b, x, transposed(b, weight), true);
  return b.emit_in_place(Operator::add_, Elementwise{b.elements(y)}, {y, bias});
}

}  // namespace gpuplan::aten
