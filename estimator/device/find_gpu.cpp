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

// Without who makes it: "4090" of "nvidia4090".
std::string_view without_maker(std::string_view key) {
  for (const std::string_view maker : {"nvidia", "tesla", "geforce"})
    if (key.starts_with(maker) && key.size() > maker.size()) key.remove_prefix(maker.size());
  return key;
}

// By all of a name, or the memory on the box behind it.
const Gpu* called_or_labelled(std::span<const Gpu> gpus, std::string_view key) {
  if (const Gpu* const gpu = called(gpus, key, [](const Gpu&) { return std::string(); })) return gpu;
  return called(gpus, key, label_of);
}

}  // namespace

const Gpu* find_gpu(std::span<const Gpu> gpus, std::string_view name) {
  const std::string key = gpu_key(name);
  if (key.empty()) return nullptr;
  const std::string_view bare = without_maker(key);
  // "5090", "3090ti": the series of a GeForce goes without saying.
  const std::string rtx = "geforcertx" + std::string(bare), gtx = "geforcegtx" + std::string(bare);
  for (const std::string_view spelling : {std::string_view(key), bare, std::string_view(rtx), std::string_view(gtx)})
    if (const Gpu* const gpu = called_or_labelled(gpus, spelling)) return gpu;
  return nullptr;
}

}  // namespace gpuplan
