// Computing with the content of small constants, for each of the two batches at once.
#pragma once

#include "tools/importers/onnx/graph.h"

namespace gpuplan::onnx_import {

/// The elements of `from` at these places, in this order; nothing where `from` has no content.
std::optional<Content> pick(const std::optional<Content>& from, const std::vector<std::size_t>& places);
/// Row-major strides of a shape that does not depend on the batch.
std::vector<std::size_t> strides_of(const Extents& shape);
/// The value's content, broadcast to the shape; nothing where it has none or is too large.
std::optional<Content> spread(const Value& v, const Extents& to);

using Integers = std::int64_t (*)(std::int64_t, std::int64_t);
using Reals = double (*)(double, double);
/// Element by element; nothing where a content, or the function of its type, is not there. What two reals come to is a
/// real with `to_real`, else an integer.
std::optional<Content> combine(const std::optional<Content>& a, const std::optional<Content>& b, Integers integers,
                               Reals reals, bool to_real);
std::optional<Content> map_reals(const std::optional<Content>& a, double (*apply)(double));
/// As elements of another type.
std::optional<Content> converted(const std::optional<Content>& c, DType type);

/// As ONNX computes with integers. Throws Error for a result that there is not.
std::int64_t subtract(std::int64_t a, std::int64_t b);
std::int64_t divide(std::int64_t a, std::int64_t b);
std::int64_t remainder(std::int64_t a, std::int64_t b);
std::int64_t power(std::int64_t a, std::int64_t b);

}  // namespace gpuplan::onnx_import
