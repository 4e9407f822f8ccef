// The types and elements of a TensorProto.
#pragma once

#include <cstdint>
#include <optional>

#include "tools/importers/onnx/graph.h"

namespace onnx {
class TensorProto;
}

namespace gpuplan::onnx_import {

/// A number of TensorProto.DataType as one of ours; empty for what has none, such as strings.
std::optional<DType> type_of(int type);

/// The elements as the file has them; none where the data is left out, elsewhere, or not of the tensor's size.
std::optional<Content> content_of(const onnx::TensorProto& tensor, DType type, std::int64_t elements);

}  // namespace gpuplan::onnx_import
