#include "estimator/device/find_gpu.h"

#include <algorithm>
#include <string>

namespace gpuplan {

std::string gpu_key(std::string_view name) {
  std::string key;
  for (const char c : name) {
    if (c == ' ' || c == '-' || c == '_' || c == '\n') continue;
    key += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (key.size() > 1 && key.back() == 'g' && key[key.size() - 2] >= '0' && key[key.size() - 2] <= '9') key += 'b';
  return key;
}

const Gpu* find_gpu(std::span<const Gpu> gpus, std::string_view name) {
  const std::string key = gpu_key(name);
  const auto is_called = [&](const Gpu& gpu) {
    return gpu_key(gpu.name) == key || gpu_key(gpu.title) == key ||
           std::any_of(gpu.aliases.begin(), gpu.aliases.end(),
                       [&](const std::string& alias) { return gpu_key(alias) == key; });
  };
  const auto found = key.empty() ? gpus.end() : std::find_if(gpus.begin(), gpus.end(), is_called);
  return found == gpus.end() ? nullptr : &*found;
}

}  // namespace gpuplan
