#include "tools/python_models/hugging_face_cache.h"

#include <filesystem>
#include <fstream>
#include <system_error>

#include "tools/process/environment.h"

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

// https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
fs::path hub() {
  for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string folder = environment(variable); !folder.empty()) return folder;
  if (const std::string home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  if (const std::string cache = environment("XDG_CACHE_HOME"); !cache.empty())
    return fs::path(cache) / "huggingface" / "hub";
  return fs::path(environment("HOME")) / ".cache" / "huggingface" / "hub";
}

bool is_file(const fs::path& path) {
  std::error_code none;
  return fs::is_regular_file(path, none);
}

}  // namespace

std::string downloaded_config(const std::string& model) {
  if (const fs::path own = fs::path(model) / "config.json"; is_file(own)) return own.string();
  std::string folder = "models--" + model;
  for (std::size_t slash = 0; (slash = folder.find('/', slash)) != std::string::npos;) folder.replace(slash, 1, "--");
  std::ifstream reference(hub() / folder / "refs" / "main");
  std::string commit;
  if (!(reference >> commit)) return "";
  const fs::path config = hub() / folder / "snapshots" / commit / "config.json";
  return is_file(config) ? config.string() : "";
}

}  // namespace gpuplan
