// What a file of safetensors, or the index of several, says it holds: names, types and shapes. The numbers themselves
// are never read. Format: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/base/error.h"

namespace gpuplan {

struct StoredTensor {
  std::string name;
  std::string dtype;                // "BF16"; empty where the file that holds it is not there
  std::vector<std::int64_t> shape;  // of a tensor with a dtype
  std::int64_t bytes = 0;
};

struct StoredTensors {
  std::vector<StoredTensor> tensors;      // in the order of the file, or of the index
  std::vector<std::string> absent_files;  // that the index names
};

/// The tensors of a header: the JSON object behind the file's first 8 bytes. `data_bytes` is what follows it. Throws
/// Error, with the place in the header, for what the format does not allow: tensors that overlap or leave gaps, sizes
/// that do not fit their shapes, unknown types.
StoredTensors parse_safetensors_header(const Source& header, std::uint64_t data_bytes);

/// The tensors of a file of safetensors, or of an index (model.safetensors.index.json) and the files beside it that
/// it names. Throws Error; needs memory for the headers only, of which one may have up to 16 MiB.
StoredTensors read_safetensors(const std::string& path);

}  // namespace gpuplan
