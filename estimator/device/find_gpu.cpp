#include "estimator/device/find_gpu.h"

#include <algorithm>
#include <cmath>
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

namespace {

// The first GPU that goes by `key` with `ending` of it behind its own names.
const Gpu* called(std::span<const Gpu> gpus, std::string_view key, const auto& ending) {
  for (const Gpu& gpu : gpus) {
    const auto is_name = [&](const std::string& name) { return gpu_key(name) + ending(gpu) == key; };
    if (is_name(gpu.name) || is_name(gpu.title) || std::ranges::any_of(gpu.aliases, is_name)) return &gpu;
  }
  return nullptr;
}

// "24gb", as boxes and clouds write it behind a name.
std::string label_of(const Gpu& gpu) {
  return gpu.datasheet ? std::to_string(std::llround(gpu.datasheet->memory_gib)) + "gb" : std::string();
}

}  // namespace

const Gpu* find_gpu(std::span<const Gpu> gpus, std::string_view name) {
  const std::string whole = gpu_key(name);
  std::string_view key = whole;
  if (key.empty()) return nullptr;
  const auto nothing = [](const Gpu&) { return std::string(); };
  if (const Gpu* const gpu = called(gpus, key, nothing)) return gpu;
  for (const std::string_view maker : {"nvidia", "tesla", "geforce"}) {
    if (!key.starts_with(maker) || key.size() == maker.size()) continue;
    key.remove_prefix(maker.size());
    if (const Gpu* const gpu = called(gpus, key, nothing)) return gpu;
  }
  return called(gpus, key, label_of);
}

}  // namespace gpuplan
