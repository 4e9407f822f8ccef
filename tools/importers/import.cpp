#include "tools/importers/import.h"

#include "tools/importers/hugging_face.h"
#include "tools/importers/onnx.h"

namespace gpuplan {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view without_space(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const std::size_t from = text.find_first_not_of(" \t\r\n");
  return from == std::string_view::npos ? std::string_view() : text.substr(from);
}

bool has(std::string_view text, std::string_view word) { return text.find(word) != std::string_view::npos; }

// A flow mapping is YAML as well as JSON: the keys decide. They are looked for in the text, so that JSON with a mistake
// in it is still known for what it was meant to be.
FileKind kind_of_json(std::string_view text) {
  if (has(text, "\"gpuplan\"") || has(text, "\"extends\"")) return FileKind::spec;
  if (has(text, "\"model_type\"") || has(text, "\"architectures\"")) return FileKind::hugging_face;
  if (has(text, "\"weight_map\"")) return FileKind::safetensors_index;
  return FileKind::spec;
}

// The header of safetensors is a JSON object behind its length; it may be padded with spaces, at its end only.
bool starts_as_safetensors(std::string_view start) { return start.size() > 9 && start[8] == '{' && start[9] == '"'; }

// A ModelProto starts with its ir_version (field 1, a varint of at most two digits) as all writers write fields in
// order: https://protobuf.dev/programming-guides/encoding/#order. The next field is a string or a message.
bool starts_as_onnx(std::string_view start) {
  if (start.size() < 3 || start[0] != '\x08' || start[1] < 1 || start[1] > 99) return false;
  const unsigned wire_type = static_cast<unsigned char>(start[2]) & 7U;
  return wire_type == 2 || wire_type == 0;
}

// A SavedModel's graph starts like an ONNX file of version 1, which nobody writes any more.
bool is_tensorflow(std::string_view name) {
  constexpr std::string_view kGraph = "saved_model.pb";
  return name == kGraph || name.ends_with("/saved_model.pb");
}

}  // namespace

FileKind recognise(std::string_view start, std::string_view name) {
  if (start.starts_with("version https://git-lfs.github.com/spec/")) return FileKind::lfs_pointer;
  if (start.starts_with("PK\x03\x04")) return FileKind::zip;
  if (start.starts_with("GGUF")) return FileKind::gguf;
  if (start.starts_with("\x89HDF\r\n\x1a\n")) return FileKind::hdf5;
  if (start.size() > 1 && start[0] == '\x80' && start[1] >= 2 && start[1] <= 5) return FileKind::pickle;
  if (start.size() > 8 && start.substr(4, 4) == "TFL3") return FileKind::tflite;
  if (start.starts_with("ftrt") || start.starts_with("ptrt")) return FileKind::tensorrt;
  if (is_tensorflow(name)) return FileKind::tensorflow;
  if (starts_as_onnx(start) || name.ends_with(".onnx")) return FileKind::onnx;
  if (name.ends_with(".py")) return FileKind::python;
  if (without_space(start).starts_with("{")) return kind_of_json(start);
  if (starts_as_safetensors(start) || name.ends_with(".safetensors")) return FileKind::safetensors;
  return name.ends_with(".pb") ? FileKind::tensorflow : FileKind::spec;
}

std::string_view describe(FileKind kind) {
  switch (kind) {
    case FileKind::spec: return "a spec";
    case FileKind::hugging_face: return "a Hugging Face config.json";
    case FileKind::safetensors_index: return "a safetensors index";
    case FileKind::safetensors: return "a safetensors file";
    case FileKind::onnx: return "an ONNX model";
    case FileKind::zip: return "a zip archive, as torch.save and torch.export write";
    case FileKind::pickle: return "a Python pickle";
    case FileKind::gguf: return "a GGUF file";
    case FileKind::hdf5: return "an HDF5 file";
    case FileKind::tensorflow: return "a TensorFlow graph";
    case FileKind::tflite: return "a TensorFlow Lite model";
    case FileKind::tensorrt: return "a TensorRT engine";
    case FileKind::python: return "a Python script";
    case FileKind::lfs_pointer: return "a Git LFS pointer";
  }
  return "";
}

Error not_a_model(const std::string& name, FileKind kind) {
  if (kind == FileKind::lfs_pointer)
    return Error(name + " is a Git LFS pointer: the file itself has not been fetched", ErrorKind::environment)
        .help("git lfs pull; on GitHub actions/checkout with lfs: true");
  const std::string is = name + " is " + std::string(describe(kind));
  switch (kind) {
    case FileKind::tensorflow:
      return Error(is + ", which gpuplan cannot read")
          .help(
              "convert it to ONNX: python -m tf2onnx.convert --saved-model FOLDER (or --graphdef FILE) --output "
              "model.onnx");
    case FileKind::tflite:
      return Error(is + ", which gpuplan cannot read")
          .help("convert it to ONNX: python -m tf2onnx.convert --tflite FILE --output model.onnx");
    case FileKind::tensorrt:
      return Error(is + ", compiled for one GPU").help("use the ONNX file that it was built from");
    case FileKind::python:
      return Error(is + ", not a model")
          .help("a class or function in it that makes a model: gpuplan " + name +
                ":NAME; to run the script without a GPU: gpuplan shadow -- python " + name);
    default: break;
  }
  Error error(is + ", which has weights but no model");
  switch (kind) {
    case FileKind::safetensors:
    case FileKind::safetensors_index:
    case FileKind::gguf:
      return error.help("use the config.json next to it, or describe the model in YAML: gpuplan explain layers");
    case FileKind::hdf5:
      return error.help("convert a Keras model to ONNX: python -m tf2onnx.convert --keras FILE --output model.onnx");
    case FileKind::pickle:
      return error.help(
          "a memory snapshot of PyTorch's is explained by gpuplan snapshot FILE; of a model, name what makes it, "
          "gpuplan "
          "FILE.py:NAME, or export it to ONNX; for Hugging Face weights, use the config.json next to them");
    default:
      return error.help(
          "name what makes the model, gpuplan FILE.py:NAME, or export it to ONNX; for Hugging Face weights, use the "
          "config.json next to them");
  }
}

bool is_text(FileKind kind) { return kind == FileKind::spec || kind == FileKind::hugging_face; }

std::shared_ptr<const Source> spec_of_text(std::shared_ptr<const Source> text, FileKind kind) {
  switch (kind) {
    case FileKind::spec: return text;
    case FileKind::hugging_face: return hugging_face_spec(*text);
    case FileKind::onnx:
      throw Error(text->name + " is " + std::string(describe(kind))).help("give the file's name instead");
    default: throw not_a_model(text->name, kind);
  }
}

std::shared_ptr<const Source> spec_of_file(const std::string& path, FileKind kind, std::vector<Variable>& set,
                                           const std::string& called) {
  if (kind == FileKind::onnx) return onnx_spec(path, set, called);
  throw not_a_model(called.empty() ? path : called, kind);
}

std::string import_name(const std::string& source) { return "import:" + source; }

}  // namespace gpuplan
