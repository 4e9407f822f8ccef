#include "tools/options/accelerate_config.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "estimator/base/error.h"
#include "estimator/spec/keys.h"
#include "estimator/spec/yaml.h"
#include "tools/options/accelerate_flat.h"
#include "tools/options/accelerate_values.h"
#include "tools/options/deepspeed_config.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

constexpr std::string_view kConfig = "a config of Accelerate";

// accelerate/commands/config/config_args.py, cluster.py and launch.py of 1.15.
void expect_cluster_keys(const YamlNode& root) {
  expect_keys(root, kConfig,
              {"compute_environment",
               "debug",
               "deepspeed_config",
               "distributed_type",
               "downcast_bf16",
               "dynamo_config",
               "enable_cpu_affinity",
               "fp8_config",
               "fsdp_config",
               "gpu_ids",
               "machine_rank",
               "main_process_ip",
               "main_process_port",
               "main_training_function",
               "megatron_lm_config",
               "mixed_precision",
               "mpirun_config",
               "num_machines",
               "num_processes",
               "parallelism_config",
               "rdzv_backend",
               "same_network",
               "tpu_env",
               "tpu_use_cluster",
               "tpu_use_sudo",
               "use_cpu"});
}

class AccelerateReader {
 public:
  AccelerateReader(const YamlNode& root, SeveralGpusOptions& several, RunOptions& run)
      : root_(root), several_(several), run_(run) {}

  void read() {
    expect_cluster_keys(root_);
    for (const char* key : {"dynamo_config", "fp8_config", "megatron_lm_config"})
      if (const YamlNode* const section = root_.find(key); section != nullptr && !section->children.empty())
        refuse(root_, key, std::string(key) + " is not planned", "gpuplan shadow runs the script itself");
    if (const YamlNode* const section = root_.find("parallelism_config");
        section != nullptr && !section->children.empty() && text_at(root_, "distributed_type", "NO") != "FSDP")
      refuse(root_, "parallelism_config", "Accelerate refuses parallelism_config without FSDP2",
             "distributed_type: FSDP");
    if (flag_at(root_, "use_cpu", false)) refuse(root_, "use_cpu", "a run on the CPU takes no GPU", "use_cpu: false");
    const std::string type = text_at(root_, "distributed_type", "NO");
    precision_ = text_at(root_, "mixed_precision", "no");
    if (precision_ != "no" && precision_ != "bf16" && precision_ != "fp16")
      refuse(root_, "mixed_precision", "mixed_precision is planned as no, bf16 or fp16, and this is " + precision_,
             "mixed_precision: bf16");
    if (type != "NO") read_processes();
    if (type == "NO" && !several_.gpus.empty())
      throw Error("--gpus says " + several_.gpus + ", and the file that nothing is distributed")
          .at(root_.find("distributed_type") == nullptr ? root_.mark : root_.find("distributed_type")->mark)
          .help("distributed_type: MULTI_GPU");
    if (type == "NO" || type == "MULTI_GPU")
      read_alike(type);
    else if (type == "FSDP")
      read_fsdp(read_parallelism());
    else if (type == "DEEPSPEED")
      read_deepspeed_section();
    else
      refuse(root_, "distributed_type", "distributed_type " + type + " is not planned",
             "NO, MULTI_GPU, FSDP and DEEPSPEED are; Megatron-LM is --tp N --pp N");
  }

 private:
  void set(const char* flag, std::string& option, const std::string& value, const YamlNode& at) const {
    if (!option.empty() && option != value)
      throw Error(std::string(flag) + " says " + option + ", and the file " + value).at(at.mark);
    option = value;
  }
  void set(const char* flag, std::string& option, const std::string& value, const char* key) const {
    const YamlNode* const node = root_.find(key);
    set(flag, option, value, node == nullptr ? root_ : *node);
  }

  void read_processes() {
    const std::string processes = text_at(root_, "num_processes");
    if (processes.empty() && several_.gpus.empty())
      throw Error("num_processes is missing").at(root_.mark).help("say how many: --gpus 8");
    if (!processes.empty()) set("--gpus", several_.gpus, processes, "num_processes");
    const std::int64_t gpus = whole_number("num_processes", several_.gpus, 1, kMostGpus);
    const std::int64_t machines = whole_number("num_machines", text_at(root_, "num_machines", "1"), 1, kMostGpus);
    if (gpus % machines != 0)
      refuse(root_, "num_machines", "num_machines does not divide num_processes",
             "each machine has as many processes as the others");
    if (machines > 1) set("--gpus-per-node", several_.gpus_per_node, std::to_string(gpus / machines), "num_machines");
  }

  // One GPU and DistributedDataParallel train under autocast.
  void read_alike(const std::string& type) {
    if (precision_ != "no") set("--amp", run_.amp, precision_, "mixed_precision");
    if (type == "MULTI_GPU") set("--zero", several_.zero, "ddp", "distributed_type");
  }

  // ParallelismConfig (accelerate/parallelism_config.py): a mesh of replicas x shards x ranks of a context. Returns how
  // many replicas there are.
  std::int64_t read_parallelism() {
    const YamlNode* const section = root_.find("parallelism_config");
    if (section == nullptr || (section->kind != YamlNode::Kind::scalar && section->children.empty())) return 1;
    expect_keys(*section, "parallelism_config",
                {"parallelism_config_cp_backend", "parallelism_config_cp_comm_strategy", "parallelism_config_cp_size",
                 "parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size",
                 "parallelism_config_sp_attn_implementation", "parallelism_config_sp_backend",
                 "parallelism_config_sp_seq_length", "parallelism_config_sp_seq_length_is_variable",
                 "parallelism_config_sp_size", "parallelism_config_tp_size"});
    const auto size = [&](const char* key) { return whole_number(key, text_at(*section, key, "1"), 1, kMostGpus); };
    if (size("parallelism_config_tp_size") > 1)
      refuse(*section, "parallelism_config_tp_size", "tensor parallelism is not planned as Accelerate does it",
             "--tp N with --fsdp plans it as transformers does");
    if (size("parallelism_config_sp_size") > 1)
      refuse(*section, "parallelism_config_sp_size", "DeepSpeed's sequence parallelism is not planned",
             "parallelism_config_cp_size shares the tokens as PyTorch does");
    if (text_at(*section, "parallelism_config_cp_comm_strategy", "allgather") != "allgather")
      refuse(*section, "parallelism_config_cp_comm_strategy", "keys and values are planned as they are gathered",
             "parallelism_config_cp_comm_strategy: allgather");
    if (text_at(*section, "parallelism_config_cp_backend", "torch") != "torch")
      refuse(*section, "parallelism_config_cp_backend",
             "Accelerate refuses it: \"cp_backend must be one of ['torch']\"", "parallelism_config_cp_backend: torch");
    const std::int64_t context = size("parallelism_config_cp_size");
    const std::int64_t replicas = size("parallelism_config_dp_replicate_size");
    const std::int64_t shards = size("parallelism_config_dp_shard_size");
    if (replicas > 1 && shards == 1)
      refuse(*section, "parallelism_config_dp_replicate_size",
             context > 1
                 ? "Accelerate refuses it: \"Tensor/Context parallelism (tp/cp_size > 1) cannot be used with pure "
                   "data parallelism\""
                 : "Accelerate refuses FSDP2 without a dimension to shard across",
             "parallelism_config_dp_shard_size: 2");
    if (!several_.tensor.empty())
      throw Error("--tp is beside the file's parallelism_config, which says the whole mesh")
          .at(section->mark)
          .help("leave out --tp, or the file");
    const std::int64_t ranks = replicas * shards * context;
    if (ranks != whole_number("num_processes", several_.gpus, 1, kMostGpus))
      throw Error("parallelism_config is of " + std::to_string(ranks) + " processes, and num_processes is " +
                  several_.gpus)
          .at(section->mark)
          .help("dp_replicate_size x dp_shard_size x cp_size is num_processes");
    if (context > 1) set("--cp", several_.context, std::to_string(context), *section);
    return replicas;
  }

  void read_fsdp(std::int64_t replicas) {
    const YamlNode& fsdp = require(root_, kConfig, "fsdp_config");
    expect_keys(fsdp, "fsdp_config",
                {"fsdp_activation_checkpointing", "fsdp_auto_wrap_policy", "fsdp_backward_prefetch",
                 "fsdp_backward_prefetch_policy", "fsdp_cpu_ram_efficient_loading", "fsdp_forward_prefetch",
                 "fsdp_min_num_params", "fsdp_offload_params", "fsdp_reshard_after_forward", "fsdp_sharding_strategy",
                 "fsdp_state_dict_type", "fsdp_sync_module_states", "fsdp_transformer_layer_cls_to_wrap",
                 "fsdp_use_orig_params", "fsdp_version"});
    const std::string version = text_at(fsdp, "fsdp_version", "1");
    if (version != "1" && version != "2")
      refuse(fsdp, "fsdp_version", "fsdp_version is 1 or 2, not " + version, "fsdp_version: 2");
    const std::string policy = text_at(fsdp, "fsdp_auto_wrap_policy", "NO_WRAP");
    if (policy != "TRANSFORMER_BASED_WRAP")
      throw Error("fsdp_auto_wrap_policy is planned as TRANSFORMER_BASED_WRAP, and this is " + policy)
          .at(fsdp.mark)
          .help("--fsdp wrap=GLOB says which blocks are wrapped");
    const std::string wrapped = text_at(fsdp, "fsdp_transformer_layer_cls_to_wrap", "");
    const bool is_block = wrapped.ends_with("Layer") || wrapped.ends_with("Block");
    if (!wrapped.empty() && !is_block)
      refuse(fsdp, "fsdp_transformer_layer_cls_to_wrap",
             "blocks of decoders are wrapped, and " + wrapped + " is no name of one",
             "leave it out; --fsdp wrap=GLOB with --gpus says which modules are wrapped");
    if (precision_ == "fp16")
      refuse(root_, "mixed_precision", "FSDP in fp16 scales gradients, which is not planned", "mixed_precision: bf16");
    std::string words = version == "1"                                      ? words_of_flat(fsdp)
                        : flag_at(fsdp, "fsdp_reshard_after_forward", true) ? "reshard=true"
                                                                            : "reshard=false";
    if (flag_at(fsdp, "fsdp_offload_params", false)) words += ",offload=true";
    if (precision_ != "no") words += ",param=" + precision_ + ",reduce=" + precision_;
    if (precision_ != "no" && version == "1") words += ",buffer=" + precision_;
    if (replicas > 1 && version == "1")
      refuse(root_, "parallelism_config", "replicas of parallelism_config are FSDP2's", "fsdp_version: 2");
    if (replicas > 1) words += ",replicate=" + std::to_string(replicas);
    set("--zero", several_.zero, "fsdp", "distributed_type");
    set("--fsdp", several_.fsdp, words, fsdp);
    if (flag_at(fsdp, "fsdp_activation_checkpointing", false))
      set("--checkpoint", run_.checkpoint, "block", *fsdp.find("fsdp_activation_checkpointing"));
    several_.as_accelerate = true;
    several_.moves_units = version == "2" && !flag_at(fsdp, "fsdp_cpu_ram_efficient_loading", true);
  }

  void read_deepspeed_section() {
    const YamlNode& section = require(root_, kConfig, "deepspeed_config");
    expect_keys(
        section, "deepspeed_config",
        {"deepspeed_config_file", "deepspeed_exclusion_filter", "deepspeed_hostfile", "deepspeed_inclusion_filter",
         "deepspeed_moe_layer_cls_names", "deepspeed_multinode_launcher", "gradient_accumulation_steps",
         "gradient_clipping", "offload_optimizer_device", "offload_optimizer_nvme_path", "offload_param_device",
         "offload_param_nvme_path", "zero3_init_flag", "zero3_save_16bit_model", "zero_stage"});
    const std::string file = text_at(section, "deepspeed_config_file");
    if (precision_ != "no") set("--precision", run_.precision, precision_, "mixed_precision");
    if (!file.empty()) {
      set("--deepspeed", several_.deepspeed, file, section);
      read_deepspeed(several_, run_);
    } else {
      read_stage(section);
    }
    if (!flag_at(section, "zero3_init_flag", true)) several_.deepspeed_options->made_partitioned = false;
  }

  // DeepSpeedPlugin (accelerate/utils/dataclasses.py); all else is DeepSpeed's default.
  void read_stage(const YamlNode& section) {
    const YamlNode* const at = section.find("zero_stage");
    const std::int64_t stage = whole_number("zero_stage", text_at(section, "zero_stage", "2"), 0, 3);
    if (stage == 0) throw Error("DeepSpeed without ZeRO is not planned").at(at->mark).help("zero_stage: 2");
    set("--zero", several_.zero, std::to_string(stage), at == nullptr ? section : *at);
    DeepSpeedOptions& options = several_.deepspeed_options.emplace();
    options.stage = stage;
    options.overlaps = stage == 3;
    options.offloads = offloads(section, "offload_optimizer_device", stage);
    options.offloads_parameters = offloads(section, "offload_param_device", stage);
    if (options.offloads_parameters && !options.offloads)
      refuse(section, "offload_param_device", "parameters on the host are planned with the optimizer there, too",
             "offload_optimizer_device: cpu");
    const std::string parts = text_at(section, "gradient_accumulation_steps", "1");
    if (parts != "1" && parts != "auto")
      set("--micro-batches", run_.micro_batches, parts, *section.find("gradient_accumulation_steps"));
    const std::string clip = text_at(section, "gradient_clipping", "auto");
    if (clip != "auto" && run_.clip.empty()) run_.clip = clip;
  }

  static bool offloads(const YamlNode& section, const char* key, std::int64_t stage) {
    const std::string device = text_at(section, key, "none");
    if (device == "none") return false;
    const bool parameters = std::string_view(key) == "offload_param_device";
    if (device != "cpu" || (parameters && stage != 3))
      refuse(section, key, std::string(key) + " is planned" + (parameters ? " of stage 3," : "") + " as cpu",
             "gpuplan shadow runs the script itself");
    return true;
  }

  const YamlNode& root_;
  SeveralGpusOptions& several_;
  RunOptions& run_;
  std::string precision_;
};

}  // namespace

void read_accelerate(SeveralGpusOptions& several, RunOptions& run) {
  if (!several.deepspeed.empty())
    throw Error("--accelerate and --deepspeed say the same", ErrorKind::usage)
        .help("deepspeed_config_file: names the file");
  const std::shared_ptr<const Source> file = read_file_source(several.accelerate);
  YamlArena arena;
  const YamlNode& root =
      parse_yaml(*file, arena, {kConfig, "accelerate config writes one: distributed_type, num_processes, ..."});
  AccelerateReader(root, several, run).read();
  several.accelerate.clear();  // it is flags now
}

}  // namespace gpuplan
