// Elements of a large initializer, which are not loaded: where the file keeps them, and a few of them read from there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace onnx {
class TensorProto;
}

namespace gpuplan::onnx_import {

struct StoredData {
  std::string beside;       // the name of a file in the model's folder; empty: the model's own
  std::int64_t offset = 0;  // of the first element, in bytes
  std::int64_t bytes = 0;
};

/// Where `bytes` of elements lie, in the machine's order of bytes. None where the file keeps them in another form, not
/// as many, or not in its own folder: a name with a folder in it is none that is opened.
std::optional<StoredData> stored_data(const onnx::TensorProto& tensor, std::int64_t bytes);

/// A file of such data, open for as long as this lives.
class StoredFile {
 public:
  /// `model`: the path of the ONNX file. Links are not followed where the data are in another file.
  StoredFile(const StoredData& data, const std::string& model);
  ~StoredFile();
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;

  /// Appends `bytes` of the data from `at` on. False where there is no such file, or it does not have them.
  bool read(std::int64_t at, std::int64_t bytes, std::string& out) const;

 private:
  int descriptor_ = -1;
  std::int64_t offset_;
  std::int64_t bytes_;
};

}  // namespace gpuplan::onnx_import
