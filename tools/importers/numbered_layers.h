// Layers that are not all of one kind, written one by one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tools/importers/config.h"

namespace gpuplan {

inline constexpr std::int64_t kMostLayers = 1000;  // each is written down

/// "full_attention" or "sliding_attention" of each layer, as layer_types has them, or `otherwise`. Throws Error for
/// other kinds, and for a list of another length.
std::vector<std::string> layer_types(const Config& config, std::vector<std::string> otherwise);

/// The kind of each layer of a family, as its template calls it. Throws Error for kinds that are not modelled.
std::vector<std::string> kinds_of_layers(const Config& config, std::string_view family,
                                         const std::map<std::string, std::int64_t, std::less<>>& sizes);

/// `text` with the entry of each layer in the place of `@STEM after NAME`, and their names in that of `@STEM`; `lines`
/// are the entries by kind, {i} and {previous} standing for the layer's number and what it reads.
std::string with_numbered_layers(std::string text, const std::string& stem, const std::vector<std::string>& kinds,
                                 const std::map<std::string, std::string>& lines);

}  // namespace gpuplan
