// Einsum of two operands: one batched product of reshaped operands, as PyTorch runs it (sumproduct_pair in
// aten/src/ATen/native/Linear.cpp).
#include <algorithm>
#include <map>

#include "tools/importers/onnx/spec_writer.h"

namespace gpuplan::onnx_import {
namespace {

struct Equation {
  std::string left, right, result;
};

// The letters of "bhid,bhjd->bhij". Throws Error of what is no product of two operands.
Equation equation_of(const Inference& n) {
  std::string text(n.text("equation", ""));
  std::erase(text, ' ');
  const std::size_t comma = text.find(',');
  const std::size_t arrow = text.find("->");
  const auto plain = [](const std::string& part) {
    std::string sorted = part;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end() &&
           std::all_of(part.begin(), part.end(),
                       [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  };
  if (comma == std::string::npos || arrow == std::string::npos || arrow < comma)
    n.fail("the equation \"" + printable(text) + "\" is none of two operands and a result");
  const Equation e = {text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1), text.substr(arrow + 2)};
  if (!plain(e.left) || !plain(e.right) || !plain(e.result))
    n.fail("the equation \"" + printable(text) + "\" has something else than different letters in each part");
  return e;
}

bool has(const std::string& letters, char c) { return letters.find(c) != std::string::npos; }

using Sizes = std::map<char, Extent>;

Sizes sizes_of(const Inference& n, const Equation& e) {
  Sizes sizes;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const std::string& letters = i == 0 ? e.left : e.right;
    const Extents& shape = n.shape(i);
    if (letters.size() != shape.size()) n.fail("\"" + letters + "\" stands for " + to_string(shape));
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto [known, fresh] = sizes.try_emplace(letters[d], shape[d]);
      if (!fresh) known->second = n.same(known->second, shape[d]);
    }
  }
  return sizes;
}

void infer_einsum(Inference& n) {
  const Equation e = equation_of(n);
  const Sizes sizes = sizes_of(n, e);
  Extents out;
  for (const char c : e.result) {
    const auto size = sizes.find(c);
    if (size == sizes.end()) n.fail(std::string("no operand has the dimension \"") + c + "\" of the result");
    out.push_back(size->second);
  }
  n.out(std::move(out));
}

Extent size_of(const Sizes& sizes, const std::string& letters) {
  Extent all = 1;
  for (const char c : letters) all = all * sizes.at(c);
  return all;
}

std::string permuted(Emission& e, const std::string& from, const std::string& letters, const std::string& order) {
  if (order == letters) return from;
  std::string list;
  for (const char c : order) list += (list.empty() ? "" : ", ") + std::to_string(letters.find(c));
  return e.writer().add(e.wish(), "Permute(" + list + ")", {from});
}

// The operand as a batch of matrices, [both, rows, columns].
std::string matrices(Emission& e, std::size_t operand, const std::string& letters, const Sizes& sizes,
                     const std::array<std::string, 3>& parts) {
  const std::string name = permuted(e, e.input(operand), letters, parts[0] + parts[1] + parts[2]);
  const Extents shape = {size_of(sizes, parts[0]), size_of(sizes, parts[1]), size_of(sizes, parts[2])};
  return e.writer().add(e.wish(), "Reshape(" + e.sizes(shape) + ")", {name});
}

void emit_einsum(Emission& e) {
  const Equation q = equation_of(e);
  const Sizes sizes = sizes_of(e, q);
  std::string both, left, right, summed;
  for (const char c : q.result) (!has(q.right, c) ? left : !has(q.left, c) ? right : both) += c;
  for (const char c : q.left)
    if (!has(q.result, c)) summed += c;
  for (const char c : q.left + q.right)
    if (has(q.left, c) + has(q.right, c) + has(q.result, c) < 2)
      e.fail(std::string("a sum over \"") + c + "\" of one operand alone, which no layer supports");
  const std::string a = matrices(e, 0, q.left, sizes, {both, left, summed});
  const std::string b = matrices(e, 1, q.right, sizes, {both, summed, right});
  const std::string product = e.writer().add(e.wish(), "MatMul()", {a, b});
  const std::string order = both + left + right;
  Extents shape;
  for (const char c : order) shape.push_back(sizes.at(c));
  const std::string apart = e.writer().add(e.wish(), "View(" + e.sizes(shape) + ")", {product});
  e.give(permuted(e, apart, order, q.result));
}

}  // namespace

std::vector<NamedRule> einsum_rules() { return {{"Einsum", infer_einsum}}; }
std::vector<NamedEmitRule> einsum_emitters() { return {{"Einsum", emit_einsum}}; }

}  // namespace gpuplan::onnx_import
