#include "estimator/device/read_gpu.h"

#include <limits>
#include <optional>
#include <string_view>

#include "estimator/base/integers.h"
#include "estimator/device/read_datasheet.h"
#include "estimator/device/read_measurements.h"
#include "estimator/device/read_number.h"
#include "estimator/spec/keys.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {
namespace {

constexpr std::string_view kGpu = "a GPU";
constexpr std::int64_t kMaxInt = std::numeric_limits<int>::max();

std::string text_at(const YamlNode& map, std::string_view key) {
  const YamlNode& node = require(map, kGpu, key);
  if (node.kind != YamlNode::Kind::scalar || node.text.empty()) {
    throw Error(std::string(key) + " must be text, not " + describe(node)).at(node.mark);
  }
  return node.text;
}

std::int64_t count_of(const YamlNode& node, std::string_view key, std::int64_t largest) {
  return whole_number_of(node, key, 1, largest);
}

int int_at(const YamlNode& map, std::string_view key) {
  return static_cast<int>(count_of(require(map, kGpu, key), key, kMaxInt));
}

std::optional<int> optional_int_at(const YamlNode& map, std::string_view key) {
  const YamlNode* const node = map.find(key);
  if (node == nullptr) return std::nullopt;
  return static_cast<int>(count_of(*node, key, kMaxInt));
}

std::optional<std::int64_t> optional_bytes_at(const YamlNode& map, std::string_view key) {
  const YamlNode* const node = map.find(key);
  if (node == nullptr) return std::nullopt;
  return count_of(*node, key, std::numeric_limits<std::int64_t>::max());
}

void read_compute_capability(const YamlNode& map, Gpu& gpu) {
  const YamlNode& node = require(map, kGpu, "compute_capability");
  const std::string_view text = node.text;
  const auto dot = text.find('.');
  const auto major = decimal(text.substr(0, dot));
  const auto minor = dot == std::string_view::npos ? std::nullopt : decimal(text.substr(dot + 1));
  if (!major || !minor || *major < 1 || *major > 99 || *minor < 0 || *minor > 9) {
    throw Error("compute_capability must be MAJOR.MINOR, not " + describe(node)).at(node.mark).label("such as 9.0");
  }
  gpu.capability_major = static_cast<int>(*major);
  gpu.capability_minor = static_cast<int>(*minor);
}

std::vector<std::string> aliases_of(const YamlNode& map) {
  std::vector<std::string> aliases;
  const YamlNode* const list = map.find("aliases");
  if (list == nullptr) return aliases;
  expect_list(*list, "aliases");
  for (const YamlNode* const item : list->children) {
    if (item->kind != YamlNode::Kind::scalar) {
      throw Error("an alias must be a name, not " + describe(*item)).at(item->mark);
    }
    aliases.push_back(item->text);
  }
  return aliases;
}

void read_memory(const YamlNode& map, Gpu& gpu) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  if (map.find("memory_mib") != nullptr || !gpu.datasheet) {
    gpu.memory_bytes = checked_mul(int_at(map, "memory_mib"), kMiB);
    return;
  }
  gpu.memory_assumed = true;
  gpu.memory_bytes = static_cast<std::int64_t>(gpu.datasheet->memory_gib * 1024 * kLeastShareOfLabel) * kMiB;
}

/// "configs/gpus/h200.yaml" -> "h200".
std::string stem_of(std::string_view path) {
  const auto slash = path.find_last_of("/\\");
  if (slash != std::string_view::npos) path.remove_prefix(slash + 1);
  return std::string(path.substr(0, path.rfind('.')));
}

}  // namespace

Gpu read_gpu(const Source& source) {
  YamlArena arena;
  const YamlNode& map = parse_yaml(source, arena);
  expect_keys(map, kGpu,
              {"title", "aliases", "datasheet", "architecture", "compute_capability", "sm_count", "max_threads_per_sm",
               "memory_mib", "cuda_total_bytes", "context_bytes", "cuda_name", "l2_cache_bytes", "memory_bus_bits",
               "sm_clock_khz", "memory_clock_khz", "source", "measured"});
  require_keys(map, kGpu, {"title", "architecture", "compute_capability", "sm_count", "max_threads_per_sm", "source"});
  Gpu gpu;
  gpu.name = stem_of(source.name);
  gpu.title = text_at(map, "title");
  gpu.aliases = aliases_of(map);
  gpu.architecture = text_at(map, "architecture");
  read_compute_capability(map, gpu);
  gpu.sm_count = int_at(map, "sm_count");
  gpu.max_threads_per_sm = int_at(map, "max_threads_per_sm");
  if (const YamlNode* const sheet = map.find("datasheet")) gpu.datasheet = read_datasheet(*sheet);
  read_memory(map, gpu);
  gpu.cuda_total_bytes = optional_bytes_at(map, "cuda_total_bytes");
  gpu.context_bytes = optional_bytes_at(map, "context_bytes");
  if (map.find("cuda_name") != nullptr) gpu.cuda_name = text_at(map, "cuda_name");
  gpu.l2_cache_bytes = optional_bytes_at(map, "l2_cache_bytes");
  gpu.memory_bus_bits = optional_int_at(map, "memory_bus_bits");
  gpu.sm_clock_khz = optional_int_at(map, "sm_clock_khz");
  gpu.memory_clock_khz = optional_int_at(map, "memory_clock_khz");
  gpu.source = text_at(map, "source");
  if (const YamlNode* const measured = map.find("measured")) gpu.measured = read_measurements(*measured);
  return gpu;
}

}  // namespace gpuplan
