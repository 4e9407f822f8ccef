// Where Hugging Face's libraries keep what they have downloaded.
#pragma once

#include <string>

namespace gpuplan {

/// The config.json of a model: of a folder, or of Qwen/Qwen3-8B as huggingface_hub's cache has it. Empty: neither has
/// one.
std::string downloaded_config(const std::string& model);

}  // namespace gpuplan
