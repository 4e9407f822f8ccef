// Layers that attend to a window of tokens only, beside others that attend to all: layer_types, or max_window_layers,
// of Qwen's configurations (transformers/models/qwen2/configuration_qwen2.py and modeling_qwen2.py).
#pragma once

#include "tools/importers/config.h"
#include "tools/importers/spec_text.h"

namespace gpuplan {

/// Gives the model's layers a second mask, where some of them have a window; layers of both kinds are then written one
/// by one. Throws Error for kinds of layers that are not modelled.
void set_windows(const Config& config, std::int64_t layers, SpecText& spec);

/// Gemma 3's: all layers but every sixth have a window and rotary tables of their own, unless layer_types or
/// sliding_window_pattern says otherwise.
void set_gemma2_windows(const Config& config, std::int64_t layers, SpecText& spec);
void set_gemma3_windows(const Config& config, std::int64_t layers, SpecText& spec);

}  // namespace gpuplan
