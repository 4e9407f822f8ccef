#include <algorithm>
#include <string_view>
#include <utility>

#include "validate/shadow/host/launch.h"

namespace gpuplan::shadow {
namespace {

std::string& variable(std::vector<std::string>& environment, const std::string& name) {
  const std::string start = name + "=";
  const auto found = std::ranges::find_if(environment, [&](const std::string& v) { return v.starts_with(start); });
  if (found != environment.end()) return *found;
  return environment.emplace_back(start);
}

void set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  variable(environment, name) = name + "=" + value;
}

void set_default(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  std::string& text = variable(environment, name);
  if (text == name + "=") text += value;
}

void put_in_front(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  std::string& text = variable(environment, name);
  const std::string others = text.substr(name.size() + 1);
  text = name + "=" + value + (others.empty() ? "" : ":" + others);
}

// XLA would build CUDA graphs node by node, which the runtime does not have: it launches the same kernels one by one.
void without_command_buffers(std::vector<std::string>& environment) {
  std::string& flags = variable(environment, "XLA_FLAGS");
  if (flags.find("command_buffer") != std::string::npos) return;
  flags += flags == "XLA_FLAGS=" ? "" : " ";
  flags += "--xla_gpu_enable_command_buffer=";
}

// What torchrun would tell a script. With one process the rank is the only one on its machine.
void stand_for_rank(std::vector<std::string>& environment, const Settings& settings) {
  set(environment, "RANK", std::to_string(settings.rank));
  set(environment, "WORLD_SIZE", std::to_string(settings.world));
  set(environment, "LOCAL_RANK", "0");
  set(environment, "LOCAL_WORLD_SIZE", "1");
  set(environment, "MASTER_ADDR", "127.0.0.1");
  set(environment, "MASTER_PORT", "29500");
}

}  // namespace

std::vector<std::string> session_environment(const std::vector<std::string>& environment,
                                             const std::filesystem::path& runtime, const std::string& session,
                                             const Settings& settings) {
  std::vector<std::string> out = environment;
  const std::string folder = runtime.string(), library = "libgpuplan_shadow.so";
  set(out, kSessionVariable, session);
  // The dynamic linker takes a space for a separator here, but not in LD_LIBRARY_PATH, where it looks the name up.
  const bool plain = folder.find(' ') == std::string::npos;
  put_in_front(out, "LD_PRELOAD", plain ? folder + "/" + library : library);
  put_in_front(out, "LD_LIBRARY_PATH", folder);
  put_in_front(out, "PYTHONPATH", folder + "/python");
  if (std::ranges::any_of(out,
                          [](const std::string& v) { return v.starts_with("PATH="); }))  // else the system's default
    put_in_front(out, "PATH", folder + "/bin");
  // What is compiled for the GPU that we stand for, and chosen without a clock, is kept from other runs.
  set_default(out, "TORCHINDUCTOR_CACHE_DIR", session + "/inductor");
  set_default(out, "TRITON_CACHE_DIR", session + "/triton");
  set_default(out, "VLLM_CACHE_ROOT", session + "/vllm");
  // FlashInfer's other norms are launched by a library that has the CUDA runtime linked in (SGLang uses them).
  set_default(out, "FLASHINFER_USE_CUDA_NORM", "1");
  without_command_buffers(out);
  if (settings.peers == Peers::imagined) stand_for_rank(out, settings);
  return out;
}

}  // namespace gpuplan::shadow
