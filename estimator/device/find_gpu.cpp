#include "estimator/device/find_gpu.h"

#include <algorithm>
#include <string>

namespace gpuplan {
namespace {

/// Lower case, without spaces, dashes and underscores; "80g" at the end is "80gb".
std::string key_of(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (key.size() > 1 && key.back() == 'g' && key[key.size() - 2] >= '0' && key[key.size() - 2] <= '9') key += 'b';
  return key;
}

}  // namespace

const Gpu* find_gpu(std::span<const Gpu> gpus, std::string_view name) {
  const std::string key = key_of(name);
  const auto is_called = [&](const Gpu& gpu) {
    return key_of(gpu.name) == key || key_of(gpu.title) == key ||
           std::any_of(gpu.aliases.begin(), gpu.aliases.end(),
                       [&](const std::string& alias) { return key_of(alias) == key; });
  };
  const auto found = key.empty() ? gpus.end() : std::find_if(gpus.begin(), gpus.end(), is_called);
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace gpuplan
