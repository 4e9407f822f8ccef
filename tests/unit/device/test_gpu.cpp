// GPU files and their names.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/device/find_gpu.h"
#include "estimator/device/read_gpu.h"

namespace gpuplan {
namespace {

const std::string kWhole =
    "title: NVIDIA X1\n"
    "aliases: [X1-SXM, Tesla X1]\n"
    "architecture: Xenon\n"
    "compute_capability: 12.1\n"
    "sm_count: 7\n"
    "max_threads_per_sm: 1536\n"
    "memory_mib: 1024\n"
    "source: made up\n";

Gpu read(const std::string& text) { return read_gpu(Source{"some/folder/x1.yaml", text}); }

std::string message_of(const std::string& text) {
  const Source source{"x1.yaml", text};
  try {
    read_gpu(source);
  } catch (const Error& error) {
    return std::to_string(error.line()) + ": " + error.message();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

std::vector<Gpu> all_gpus() {
  std::vector<Gpu> gpus;
  const auto folder = std::filesystem::path(GPUPLAN_SOURCE_DIR) / "configs" / "gpus";
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(file.path()).rdbuf();
    gpus.push_back(read_gpu(Source{file.path().string(), text.str()}));
  }
  return gpus;
}

TEST_CASE("a GPU file is read whole, and what is unknown stays absent") {
  const Gpu gpu = read(kWhole);
  CHECK(gpu.name == "x1");
  CHECK(gpu.title == "NVIDIA X1");
  CHECK(gpu.aliases == std::vector<std::string>{"X1-SXM", "Tesla X1"});
  CHECK(gpu.architecture == "Xenon");
  CHECK(gpu.capability_major == 12);
  CHECK(gpu.capability_minor == 1);
  CHECK(gpu.sm_count == 7);
  CHECK(gpu.max_threads_per_sm == 1536);
  CHECK(gpu.memory_bytes == 1073741824);
  CHECK(!gpu.cuda_total_bytes);
  CHECK(!gpu.context_bytes);
  CHECK(gpu.source == "made up");
  CHECK(read(kWhole + "cuda_total_bytes: 1000\n").cuda_total_bytes == 1000);
  CHECK(read(kWhole + "context_bytes: 500\n").context_bytes == 500);
  CHECK(gpu.cuda_name.empty());
  CHECK(!gpu.l2_cache_bytes);
  const Gpu described = read(kWhole +
                             "cuda_name: Tesla X1\nl2_cache_bytes: 4194304\nmemory_bus_bits: 256\n"
                             "sm_clock_khz: 1590000\nmemory_clock_khz: 5001000\n");
  CHECK(described.cuda_name == "Tesla X1");
  CHECK(described.l2_cache_bytes == 4194304);
  CHECK(described.memory_bus_bits == 256);
  CHECK(described.sm_clock_khz == 1590000);
  CHECK(described.memory_clock_khz == 5001000);
}

TEST_CASE("a GPU file with something wrong is refused at its place") {
  CHECK(message_of(kWhole + "sm_cont: 3\n") == "9: unknown key \"sm_cont\" in a GPU — did you mean \"sm_count\"?");
  CHECK(message_of(replaced(kWhole, "sm_count: 7\n", "")) == "1: a GPU needs sm_count:");
  CHECK(message_of(replaced(kWhole, ": 7", ": -7")) == "5: sm_count must be a whole number, not \"-7\"");
  CHECK(message_of(replaced(kWhole, ": 7", ": 7.0")) == "5: sm_count must be a whole number, not \"7.0\"");
  CHECK(message_of(replaced(kWhole, ": 7", ": 99999999999")) ==
        "5: sm_count must be a whole number, not \"99999999999\"");
  CHECK(message_of(replaced(kWhole, "12.1", "12")) == "4: compute_capability must be MAJOR.MINOR, not \"12\"");
  CHECK(message_of(replaced(kWhole, "[X1-SXM, Tesla X1]", "X1")) == "2: aliases must be a list, not \"X1\"");
  CHECK(message_of(replaced(kWhole, "Xenon", "[a]")) == "3: architecture must be text, not a list");
  CHECK(message_of(kWhole + "title: again\n").starts_with("9: "));
}

TEST_CASE("a GPU is found by name, title and alias, whatever the case, spaces and dashes") {
  const std::vector<Gpu> gpus{read(kWhole)};
  for (const char* name : {"x1", "X1", "nvidia x1", "NVIDIA-X1", "x1sxm", "X1_SXM", "tesla-x1", "TeslaX1"}) {
    CHECK(find_gpu(gpus, name) == &gpus[0]);
  }
  for (const char* name : {"", "-", "x2", "x1 sxm2", "tesla"}) CHECK(find_gpu(gpus, name) == nullptr);
}

TEST_CASE("the GPU files are consistent and their names lead to one GPU each") {
  const std::vector<Gpu> gpus = all_gpus();
  CHECK(gpus.size() >= 6);
  for (const Gpu& gpu : gpus) {
    INFO(gpu.name);
    // cudaMalloc never has more than nvidia-smi shows, and 3 % less at most.
    if (gpu.cuda_total_bytes) {
      CHECK(*gpu.cuda_total_bytes <= gpu.memory_bytes);
      CHECK(*gpu.cuda_total_bytes >= gpu.memory_bytes / 100 * 97);
    }
    std::vector<std::string> names = gpu.aliases;
    names.insert(names.end(), {gpu.name, gpu.title});
    for (const std::string& name : names) CHECK(find_gpu(gpus, name) == &gpu);
  }
  CHECK(find_gpu(gpus, "RTX 4090")->sm_count == 128);
  CHECK(find_gpu(gpus, "4090")->sm_count == 128);
  for (const char* name : {"5090", "nvidia 5090", "GeForce 5090", "5090-32g"})
    CHECK(find_gpu(gpus, name)->name == "rtx5090");
  for (const char* name : {"3090ti", "3090 Ti", "rtx3090ti"}) CHECK(find_gpu(gpus, name)->name == "rtx3090ti");
  CHECK(find_gpu(gpus, "6000") == nullptr);  // Turing's, Ada's or Blackwell's
  CHECK(find_gpu(gpus, "tesla t4")->capability_minor == 5);
  // Who makes it before the name, the memory on its box behind.
  const auto named = [&](const char* name) { return find_gpu(gpus, name) ? find_gpu(gpus, name)->name : ""; };
  CHECK(named("l4-24g") == "l4");
  CHECK(named("rtx3060-12g") == "rtx3060");
  CHECK(named("rtx3060-16g").empty());
  CHECK(named("nvidia-tesla-v100-sxm2-16gb") == "v100-sxm2-16gb");
  CHECK(named("NVIDIA GeForce RTX 2080 Ti 11GB") == "rtx2080ti");
  CHECK(named("nvidia").empty());
  CHECK(named("24gb").empty());
}

}  // namespace
}  // namespace gpuplan
