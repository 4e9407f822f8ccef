// Models that are not written in YAML: what a file holds is recognised by its first bytes, and what describes a model
// becomes the text of a spec. The ordinary reader (estimator/spec/read.h) reads that, so that everything which takes a
// YAML file takes an import.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/spec/model.h"

namespace gpuplan {

enum class FileKind : unsigned char {
  spec,               // YAML, or nothing else that is known
  hugging_face,       // config.json: a JSON object with model_type
  safetensors_index,  // model.safetensors.index.json: a JSON object with weight_map
  safetensors,        // an 8-byte length and a JSON object
  onnx,               // a serialized onnx.ModelProto
  zip,                // torch.save, torch.export, Keras
  pickle,             // torch.save before PyTorch 1.6, or Python's pickle
  gguf,               // llama.cpp's weights
  hdf5,               // Keras' weights
  tensorflow,         // a frozen graph, or the graph of a SavedModel
  tflite,             // a flat buffer of TensorFlow Lite's
  tensorrt,           // an engine, compiled for one GPU
  python,             // a script
  lfs_pointer,        // what a checkout has in the place of a file that Git LFS has not fetched
};

/// As many bytes of a file as recognise() looks at.
constexpr std::size_t kRecognisedBytes = 4096;

/// What a file holds, by its first bytes: kRecognisedBytes, or all that there are, where its name says nothing; all of
/// a text, whose keys may stand anywhere. `name` decides only where the content has no mark of its own.
FileKind recognise(std::string_view start, std::string_view name);

/// "ONNX model", for messages.
std::string_view describe(FileKind kind);

/// The error for a file that describes no model that can be read: what it is, and what to do instead.
Error not_a_model(const std::string& name, FileKind kind);

/// True where the text of such a file becomes a spec by spec_of_text.
bool is_text(FileKind kind);

/// The spec of a text that was read, named "import:" and the source's name; `text` itself where it is a spec already.
/// Throws Error, with the place.
std::shared_ptr<const Source> spec_of_text(std::shared_ptr<const Source> text, FileKind kind);

/// The spec of a file that is not read whole: its weights may be of any size. `set`: values of its dynamic dimensions;
/// those that it uses are taken out. `called`: its name where that is another than its path. Throws Error.
std::shared_ptr<const Source> spec_of_file(const std::string& path, FileKind kind, std::vector<Variable>& set,
                                           const std::string& called = {});

/// The name of an imported spec: "import:config.json".
std::string import_name(const std::string& source);

}  // namespace gpuplan
