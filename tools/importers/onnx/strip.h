// An ONNX file without its weights.
//
// The messages are walked as they lie in the file, by protobuf's own stream: what holds data is skipped, which seeks,
// and all else is copied. So a file of gigabytes takes as much memory as its graph.
#pragma once

#include <cstddef>
#include <string>

namespace gpuplan::onnx_import {

constexpr std::size_t kMaxContentBytes = std::size_t{64} << 10;  // of one tensor or text that is kept
constexpr std::size_t kMaxGraphBytes = std::size_t{64} << 20;    // of all that is kept
constexpr std::size_t kMaxFields = std::size_t{8} << 20;         // of all that is kept

/// The serialized ModelProto in the file `path`, without the data of tensors above kMaxContentBytes, documentation, and
/// what holds no part of the graph. Throws Error: it cannot be read, is no ONNX model, or its graph is too large.
std::string read_without_weights(const std::string& path);

}  // namespace gpuplan::onnx_import
