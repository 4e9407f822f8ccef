// ONNX models that tests write, and what becomes of them. The functions are in test_import_onnx.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/plan/report.h"
#include "estimator/spec/model.h"

namespace onnx {
class ModelProto;
class NodeProto;
class TensorProto;
}  // namespace onnx

namespace gpuplan::onnx_files {

/// A model of one input x [batch, 8], one output y and no nodes.
onnx::ModelProto small_model();
/// Has the file say that x is of this batch.
void write_batch(onnx::ModelProto& model, std::int64_t batch);
/// Adds a node of one output, called "node_of_" and its name.
onnx::NodeProto& add_node(onnx::ModelProto& model, const std::string& op, const std::vector<std::string>& inputs,
                          const std::string& output);
/// Adds an initializer without data; `type`: TensorProto.DataType, 1 is float.
onnx::TensorProto& add_initializer(onnx::ModelProto& model, const std::string& name,
                                   const std::vector<std::int64_t>& sizes, int type = 1);
/// The same of integers (int64), with data.
onnx::TensorProto& add_integers(onnx::ModelProto& model, const std::string& name,
                                const std::vector<std::int64_t>& numbers);

/// The message of the Error that a file of these bytes is; empty: it is none.
std::string problem(const std::string& bytes, std::vector<Variable> set = {});
/// The spec of a file of these bytes.
std::string spec_of(const std::string& bytes);
/// The plan of an inference.
Report plan_bytes(const std::string& bytes, std::int64_t batch);
Report plan_onnx(const std::string& path, std::int64_t batch, std::vector<Variable> set = {});

bool contains(const std::string& text, const std::string& part);

}  // namespace gpuplan::onnx_files
