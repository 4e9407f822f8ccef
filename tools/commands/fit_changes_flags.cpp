#include "tools/commands/fit_changes_flags.h"

#include <utility>

#include "estimator/base/error.h"
#include "tools/answers/combinations.h"

namespace gpuplan {

void refuse_beside_changes(const std::string& asked, const FitOptions& options) {
  const std::pair<const char*, bool> flags[] = {{"--gpus", !options.gpus.empty()},
                                                {"--provider", !options.providers.empty()},
                                                {"--region", !options.region.empty()},
                                                {"--spot", options.spot},
                                                {"--budget", !options.budget.empty()},
                                                {"--samples", !options.samples.empty()},
                                                {"--emit", !options.emit.empty()},
                                                {"--prices", !options.prices.empty()},
                                                {"--epochs", !options.epochs.empty()},
                                                {"--zero", !options.zero.empty()},
                                                {"--wrap", !options.wrap.empty()},
                                                {"--ep", !options.experts.empty()},
                                                {"--network", !options.network.empty()},
                                                {"--max-batch", !options.max_batch.empty() && options.solve != "batch"},
                                                {"--find-unused-parameters", options.find_unused}};
  for (const auto& [flag, given] : flags)
    if (given)
      throw Error(std::string(flag) + " is not for " + asked, ErrorKind::usage)
          .help(std::string(flag) == "--gpus" ? "of several GPUs: --may mesh,checkpoint" : "leave it out");
}

void refuse_with_mesh(const FitOptions& options) {
  if (options.fsdp.find("version=1") != std::string::npos)
    throw Error("--may mesh tries FSDP2, and --fsdp version=1 says FSDP1", ErrorKind::usage)
        .help("leave out version=1");
  if (options.run.save == "full" || options.run.save == "model")
    throw Error("--save " + options.run.save + " is not planned with --may mesh", ErrorKind::usage)
        .help("--save sharded, or plan one of its rows with --save " + options.run.save);
  refuse_unknown_changes(options.may);
  for (const std::string& word : options.may)
    if (word != "mesh" && word != "checkpoint" && word != "micro-batches")
      throw Error("--may mesh goes with checkpoint and micro-batches, not with " + word, ErrorKind::usage)
          .help("give the others as flags of the run");
  if (options.gpus.empty())
    throw Error("--may mesh needs a number of GPUs", ErrorKind::usage)
        .help("--gpus 64, or --gpus any of what is rented");
}

}  // namespace gpuplan
