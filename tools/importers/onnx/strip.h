// An ONNX file without its weights.
//
// The messages are walked as they lie in the file, by protobuf's own stream: what holds data is skipped, which seeks,
// and all else is copied. So a file of gigabytes takes as much memory as its graph.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gpuplan::onnx_import {

constexpr std::size_t kMaxContentBytes = std::size_t{64} << 10;  // of one tensor or text that is kept
constexpr std::size_t kMaxGraphBytes = std::size_t{64} << 20;    // of all that is kept
constexpr std::size_t kMaxMessages = std::size_t{512} << 10;     // nodes, attributes, tensors
constexpr std::size_t kMaxFields = std::size_t{8} << 20;         // of all that is kept

/// What torch.onnx's newer exporter notes beside nodes and values; the rest of such notes is left out.
constexpr std::string_view kScopesNote = "pkg.torch.onnx.name_scopes";
constexpr std::string_view kCallNote = "pkg.torch.onnx.fx_node";
constexpr std::string_view kNameNote = "pkg.torch.onnx.original_node_name";
constexpr std::string_view kKindNote = "pkg.torch.export.graph_signature.InputSpec.kind";
/// The operator of a node of a function whose attributes are the defaults of the function's: older schemas have no
/// field for those.
constexpr std::string_view kDefaultsNode = "gpuplan.defaults";
constexpr char kNoteEnd = '\x1E';

/// The serialized ModelProto in the file `path`, without the data of tensors above kMaxContentBytes, documentation, and
/// what holds no part of the graph. `called`: its name in messages. Notes (metadata_props, since IR version 10) are in
/// the place of the documentation, each as KEY=TEXT and kNoteEnd: older schemas have no field for them. That of a
/// tensor says where its raw data lie in the file, left out or not: "OFFSET BYTES". Throws Error: it cannot be read, is
/// no ONNX model, or its graph is too large.
std::string read_without_weights(const std::string& path, const std::string& called);

}  // namespace gpuplan::onnx_import
