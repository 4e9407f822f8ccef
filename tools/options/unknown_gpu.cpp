#include "tools/options/unknown_gpu.h"

#include <algorithm>

#include "estimator/base/number_text.h"
#include "estimator/device/find_gpu.h"
#include "tools/options/instance_input.h"
#include "tools/options/words.h"

namespace gpuplan {

Error unknown_gpu(const std::string& name, std::span<const Gpu> gpus) {
  const auto same = [&](const Instance& i) { return gpu_key(i.name) == gpu_key(name); };
  const std::vector<Instance> instances = load_instances("", gpus);
  if (const auto found = std::ranges::find_if(instances, same); found != instances.end() && !name.empty())
    return Error("unknown GPU \"" + name + "\"", ErrorKind::usage)
        .help("that is an instance of " + found->provider + ", which has " + number_text(found->gpu_count) + " x " +
              found->gpu);
  std::vector<std::string> words;
  for (const Gpu& gpu : gpus) {
    words.push_back(gpu.name);
    words.insert(words.end(), gpu.aliases.begin(), gpu.aliases.end());
  }
  return Error("unknown GPU \"" + name + "\"" + did_you_mean(name, words), ErrorKind::usage)
      .help("gpuplan gpus lists the " + std::to_string(gpus.size()) +
            " that are known, all from NVIDIA; a GPU file or a size such as \"22 GiB\" works, too");
}

}  // namespace gpuplan
