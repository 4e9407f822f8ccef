// --gpu: a name of the embedded table, a file, or a size.
#include "configs/embedded.h"
#include "estimator/device/find_gpu.h"
#include "estimator/device/read_gpu.h"
#include "tools/options/run_options.h"
#include "tools/options/unknown_gpu.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace {

// A ceiling on the device assumed without a name; all of it is usable.
Gpu ceiling(const std::string& text, std::int64_t bytes) {
  if (bytes <= 0) throw Error("--gpu " + text + ": a memory limit must be above 0", ErrorKind::usage);
  Gpu gpu = assumed_gpu();
  gpu.name = text;
  gpu.title = "a limit of " + text;
  gpu.memory_bytes = bytes;
  gpu.cuda_total_bytes = bytes;
  return gpu;
}

bool only_digits(const std::string& text) { return text.find_first_not_of("0123456789.") == std::string::npos; }

}  // namespace

bool is_gpu_file(const std::string& text) {
  return !size_in_bytes(text) && (text.find('/') != std::string::npos || text.ends_with(".yaml"));
}

std::vector<Gpu> gpu_table() {
  std::vector<Gpu> gpus;
  for (const EmbeddedFile& file : embedded_gpus())
    gpus.push_back(read_gpu(Source{std::string(file.path), std::string(file.text)}));
  return gpus;
}

// Parses the files whose title or aliases could be the name, and not all of them: a plan needs one.
std::optional<Gpu> gpu_called(const std::string& name) {
  std::string key = gpu_key(name);
  if (key.ends_with("gb")) key.pop_back();  // of "80g" a key makes "80gb", within a text it does not
  std::vector<Gpu> gpus;
  for (const EmbeddedFile& file : embedded_gpus()) {
    const std::string_view names = file.text.substr(0, file.text.find("\narchitecture:"));
    if (gpu_key(file.name).starts_with(key) || gpu_key(names).find(key) != std::string::npos)
      gpus.push_back(read_gpu(Source{std::string(file.path), std::string(file.text)}));
  }
  if (const Gpu* const gpu = find_gpu(gpus, name)) return *gpu;
  gpus = gpu_table();  // names with more than the files have
  const Gpu* const gpu = find_gpu(gpus, name);
  return gpu == nullptr ? std::nullopt : std::optional(*gpu);
}

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_gpus()) names.emplace_back(file.name);
  return names;
}

std::optional<Gpu> load_gpu(const RunOptions& options) {
  const std::string& text = options.gpu;
  if (text.empty()) return std::nullopt;
  if (const std::optional<std::int64_t> bytes = size_in_bytes(text)) return ceiling(text, *bytes);
  if (text == "-" || is_gpu_file(text)) return read_gpu(*read_file_source(text));
  if (std::optional<Gpu> gpu = gpu_called(text)) return gpu;
  if (only_digits(text))
    throw Error("--gpu " + text + ": a size needs a unit, as in \"" + text + " GiB\"", ErrorKind::usage);
  throw unknown_gpu(text, gpu_table());
}

}  // namespace gpuplan
