#include "tools/options/accelerate_flat.h"

#include "tools/options/accelerate_values.h"

namespace gpuplan {

std::string words_of_flat(const YamlNode& fsdp) {
  const std::string after_forward = text_at(fsdp, "fsdp_reshard_after_forward", "FULL_SHARD");
  const std::string strategy = text_at(fsdp, "fsdp_sharding_strategy", "FULL_SHARD");
  if (fsdp.find("fsdp_sharding_strategy") == nullptr && after_forward != "FULL_SHARD" && after_forward != "true" &&
      after_forward != "True")
    refuse(fsdp, "fsdp_reshard_after_forward",
           "accelerate launch says FULL_SHARD to FSDP1 whatever fsdp_reshard_after_forward is",
           "fsdp_sharding_strategy: SHARD_GRAD_OP, or leave out fsdp_reshard_after_forward");
  const std::string sharding = choose_at<std::string>(fsdp, "fsdp_sharding_strategy", strategy,
                                                      {{"FULL_SHARD", "full"},
                                                       {"SHARD_GRAD_OP", "grad-op"},
                                                       {"NO_SHARD", "none"},
                                                       {"HYBRID_SHARD", "hybrid"},
                                                       {"1", "full"},
                                                       {"2", "grad-op"},
                                                       {"3", "none"},
                                                       {"4", "hybrid"}});
  const std::string prefetch = choose_at<std::string>(
      fsdp, "fsdp_backward_prefetch",
      text_at(fsdp, "fsdp_backward_prefetch", text_at(fsdp, "fsdp_backward_prefetch_policy", "NO_PREFETCH")),
      {{"BACKWARD_PRE", "pre"}, {"BACKWARD_POST", "post"}, {"NO_PREFETCH", "none"}});
  const bool efficient = flag_at(fsdp, "fsdp_cpu_ram_efficient_loading", true);
  const bool sends = flag_at(fsdp, "fsdp_sync_module_states", true);
  if (efficient && !sends)
    refuse(fsdp, "fsdp_sync_module_states",
           "Accelerate refuses it: \"When using `--fsdp_cpu_ram_efficient_loading` set `--fsdp_sync_module_states` to "
           "`True`\"",
           "fsdp_sync_module_states: true");
  std::string words = "version=1,strategy=" + sharding + ",prefetch=" + prefetch;
  if (flag_at(fsdp, "fsdp_use_orig_params", true)) words += ",orig-params=true";
  if (flag_at(fsdp, "fsdp_forward_prefetch", false)) words += ",forward-prefetch=true";
  if (sends) words += ",sync-states=true";
  return words;
}

}  // namespace gpuplan
