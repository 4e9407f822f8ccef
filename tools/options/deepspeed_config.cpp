#include "tools/options/deepspeed_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/base/integers.h"
#include "tools/importers/json_text.h"
#include "tools/options/words.h"
#include "tools/process/read_source.h"

namespace gpuplan {
namespace {

// deepspeed/runtime/config.py, zero/config.py and constants.py of 0.19.
const std::vector<std::string> kKeys = {"train_batch_size",
                                        "train_micro_batch_size_per_gpu",
                                        "gradient_accumulation_steps",
                                        "gradient_clipping",
                                        "fp16",
                                        "bf16",
                                        "bfloat16",
                                        "zero_optimization",
                                        "optimizer",
                                        "scheduler",
                                        "steps_per_print",
                                        "wall_clock_breakdown",
                                        "zero_allow_untested_optimizer",
                                        "zero_force_ds_cpu_optimizer",
                                        "prescale_gradients",
                                        "gradient_predivide_factor",
                                        "communication_data_type",
                                        "activation_checkpointing",
                                        "flops_profiler",
                                        "tensorboard",
                                        "wandb",
                                        "csv_monitor",
                                        "comms_logger",
                                        "dump_state",
                                        "aio",
                                        "data_types",
                                        "memory_breakdown",
                                        "sparse_gradients",
                                        "checkpoint",
                                        "amp"};
// DeepSpeedZeroOffloadParamConfig's and DeepSpeedZeroOffloadOptimizerConfig's (runtime/zero/offload_config.py).
const std::vector<std::string> kOffloadKeys = {"device",     "nvme_path",  "buffer_count",  "buffer_size",
                                               "max_in_cpu", "pin_memory", "pipeline_read", "pipeline_write",
                                               "fast_init",  "ratio",      "super_offload", "cpuadam_cores_perc"};
const std::vector<std::string> kZeroKeys = {"stage",
                                            "contiguous_gradients",
                                            "reduce_scatter",
                                            "reduce_bucket_size",
                                            "allgather_partitions",
                                            "allgather_bucket_size",
                                            "overlap_comm",
                                            "offload_optimizer",
                                            "offload_param",
                                            "round_robin_gradients",
                                            "sub_group_size",
                                            "ignore_unused_parameters",
                                            "elastic_checkpoint",
                                            "load_from_fp32_weights",
                                            "use_multi_rank_bucket_allreduce",
                                            "zero_hpz_partition_size",
                                            "zero_quantized_weights",
                                            "zero_quantized_gradients",
                                            "stage3_max_live_parameters",
                                            "stage3_max_reuse_distance",
                                            "stage3_prefetch_bucket_size",
                                            "stage3_param_persistence_threshold",
                                            "stage3_model_persistence_threshold",
                                            "stage3_module_granularity_threshold",
                                            "zero_quantized_nontrainable_weights",
                                            "use_all_reduce_for_fetch_params",
                                            "leaf_module",
                                            "stage3_gather_16bit_weights_on_model_save",
                                            "stage3_gather_fp16_weights_on_model_save",
                                            "memory_efficient_linear"};

using JsonKind = JsonValue::Kind;

void expect_known(const JsonValue& object, const std::vector<std::string>& known) {
  for (const JsonMember& member : object.members)
    if (std::ranges::find(known, member.key) == known.end())
      throw Error("DeepSpeed's config has no key \"" + member.key + "\"" + did_you_mean(member.key, known))
          .at(member.mark);
}

const JsonValue* object_at(const JsonValue& parent, std::string_view key) {
  const JsonValue* const value = parent.find(key);
  if (value != nullptr && value->kind != JsonKind::object)
    throw Error("\"" + std::string(key) + "\" is an object, not " + std::string(describe(value->kind))).at(value->mark);
  return value;
}

bool is_auto(const JsonValue& value) { return value.kind == JsonKind::string && value.text == "auto"; }
bool is_auto_at(const JsonValue& parent, std::string_view key) {
  const JsonValue* const value = parent.find(key);
  return value != nullptr && is_auto(*value);
}

// Nothing where it is missing, null or "auto".
std::optional<double> number_at(const JsonValue& parent, std::string_view key) {
  const JsonValue* const value = parent.find(key);
  if (value == nullptr || value->kind == JsonKind::null || is_auto(*value)) return std::nullopt;
  if (value->kind != JsonKind::number)
    throw Error("\"" + std::string(key) + "\" is a number or \"auto\", not " + std::string(describe(value->kind)))
        .at(value->mark);
  return std::strtod(value->text.c_str(), nullptr);
}

std::optional<std::int64_t> whole_at(const JsonValue& parent, std::string_view key, std::int64_t least) {
  const std::optional<double> value = number_at(parent, key);
  constexpr double kMost = 1e12;
  if (value && (*value != std::floor(*value) || *value < static_cast<double>(least) || *value > kMost))
    throw Error("\"" + std::string(key) + "\" is a whole number from " + std::to_string(least))
        .at(parent.find(key)->mark);
  return value ? std::optional(static_cast<std::int64_t>(*value)) : std::nullopt;
}

bool flag_at(const JsonValue& parent, std::string_view key, bool otherwise) {
  const JsonValue* const value = parent.find(key);
  if (value == nullptr || value->kind == JsonKind::null || is_auto(*value)) return otherwise;
  if (value->kind != JsonKind::boolean)
    throw Error("\"" + std::string(key) + "\" is true, false or \"auto\", not " + std::string(describe(value->kind)))
        .at(value->mark);
  return value->boolean;
}

[[noreturn]] void refuse_at(const JsonValue& parent, std::string_view key, const std::string& message,
                            const std::string& help) {
  throw Error(message).at(parent.find(key)->mark).help(help);
}

class DeepSpeedReader {
 public:
  DeepSpeedReader(const JsonValue& root, SeveralGpusOptions& several, RunOptions& run)
      : root_(root), several_(several), run_(run) {}

  void read() {
    if (root_.kind != JsonKind::object) throw Error("a config of DeepSpeed is an object").at(root_.mark);
    expect_known(root_, kKeys);
    read_zero();
    read_precision();
    read_batch();
    const std::optional<double> clip = number_at(root_, "gradient_clipping");
    if (clip && *clip > 0 && run_.clip.empty()) run_.clip = root_.find("gradient_clipping")->text;
    read_optimizer();
    if (root_.find("amp") != nullptr)
      refuse_at(root_, "amp", "apex's \"amp\" is not planned", "\"bf16\": {\"enabled\": true}");
  }

 private:
  void read_zero() {
    const JsonValue* const zero = object_at(root_, "zero_optimization");
    if (zero == nullptr)
      throw Error("\"zero_optimization\" is missing: DeepSpeed without ZeRO is not planned").at(root_.mark);
    expect_known(*zero, kZeroKeys);
    const std::int64_t stage = whole_at(*zero, "stage", 0).value_or(0);
    if (stage == 0 || stage > 3)
      throw Error("stages 1 to 3 of ZeRO are planned, and this is " + std::to_string(stage)).at(zero->mark);
    set("--zero", several_.zero, std::to_string(stage), *zero);
    if (!flag_at(*zero, "contiguous_gradients", true))
      refuse_at(*zero, "contiguous_gradients", "buckets that are not contiguous are not planned",
                "true is the default");
    if (!flag_at(*zero, "reduce_scatter", true))
      refuse_at(*zero, "reduce_scatter", "reductions to all ranks are not planned", "true is the default");
    if (flag_at(*zero, "round_robin_gradients", false))
      refuse_at(*zero, "round_robin_gradients", "gradients in turns are not planned", "false is the default");
    DeepSpeedOptions& options = several_.deepspeed_options.emplace();
    options.stage = stage;
    options.offloads = offloads(*zero, "offload_optimizer", stage);
    options.offloads_parameters = offloads(*zero, "offload_param", stage);
    if (options.offloads_parameters && !options.offloads)
      refuse_at(*zero, "offload_param", "parameters on the host are planned with the optimizer there, too",
                "\"offload_optimizer\": {\"device\": \"cpu\"}");
    options.overlaps = flag_at(*zero, "overlap_comm", stage == 3);
    options.bucket_elements = whole_at(*zero, "reduce_bucket_size", 1);
    options.bucket_is_auto = is_auto_at(*zero, "reduce_bucket_size");
    if (stage == 3) read_partition(*zero, options);
  }

  static void read_partition(const JsonValue& zero, DeepSpeedOptions& options) {
    PartitionSettings& p = options.partition;
    const std::pair<const char*, std::int64_t*> keys[] = {
        {"stage3_prefetch_bucket_size", &p.prefetch_elements},
        {"stage3_max_live_parameters", &p.live_elements},
        {"stage3_max_reuse_distance", &p.reuse_elements},
        {"stage3_param_persistence_threshold", &p.persistence_elements},
        {"sub_group_size", &p.part_elements}};
    for (const auto& [key, elements] : keys) *elements = whole_at(zero, key, 0).value_or(*elements);
    options.prefetch_is_auto = is_auto_at(zero, "stage3_prefetch_bucket_size");
    options.persistence_is_auto = is_auto_at(zero, "stage3_param_persistence_threshold");
    for (const char* key :
         {"zero_quantized_weights", "zero_quantized_gradients", "zero_quantized_nontrainable_weights"})
      if (flag_at(zero, key, false))
        refuse_at(zero, key, std::string("ZeRO++'s \"") + key + "\" is not planned", "false is the default");
    if (whole_at(zero, "zero_hpz_partition_size", 1).value_or(1) > 1)
      refuse_at(zero, "zero_hpz_partition_size", "ZeRO++'s secondary partitions are not planned", "1 is the default");
    for (const char* key : {"stage3_model_persistence_threshold", "stage3_module_granularity_threshold"})
      if (whole_at(zero, key, 0)) refuse_at(zero, key, std::string("\"") + key + "\" is not planned", "leave it out");
  }

  // _configure_basic_optimizer() (deepspeed/runtime/engine.py): FusedAdam, one kernel over all as torch.optim's fused
  // one has it, unless "torch_adam" says otherwise.
  void read_optimizer() {
    const JsonValue* const optimizer = object_at(root_, "optimizer");
    if (optimizer == nullptr) return;
    const JsonValue* const type = optimizer->find("type");
    std::string word = type != nullptr && type->kind == JsonKind::string ? type->text : "";
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word != "adam" && word != "adamw")
      throw Error("of DeepSpeed's own optimizers, Adam and AdamW are planned")
          .at(type == nullptr ? optimizer->mark : type->mark)
          .help("leave \"optimizer\" out of the file, as for one of torch.optim's: --opt sgd");
    const JsonValue* const params = object_at(*optimizer, "params");
    const bool of_torch = params != nullptr && flag_at(*params, "torch_adam", false);
    const bool adamw = word == "adamw" || params == nullptr || flag_at(*params, "adam_w_mode", true);
    if (run_.optimizer.empty() || (run_.optimizer != "adam" && run_.optimizer != "adamw"))
      set("--opt", run_.optimizer, adamw ? "adamw" : "adam", *optimizer);
    if (!of_torch) set("--opt-impl", run_.optimizer_impl, "fused", *optimizer);
  }

  // "device" of "offload_optimizer" or "offload_param".
  static bool offloads(const JsonValue& zero, const char* key, std::int64_t stage) {
    const JsonValue* const offload = object_at(zero, key);
    const JsonValue* const device = offload == nullptr ? nullptr : offload->find("device");
    if (offload != nullptr) expect_known(*offload, kOffloadKeys);
    if (device == nullptr || (device->kind == JsonKind::string && device->text == "none")) return false;
    if (device->kind != JsonKind::string || (device->text != "cpu" && device->text != "nvme"))
      throw Error("\"device\" is \"none\", \"cpu\" or \"nvme\"").at(device->mark);
    const bool parameters = std::string_view(key) == "offload_param";
    if (device->text == "nvme" || (parameters && stage != 3))
      refuse_at(
          *offload, "device",
          std::string("DeepSpeed's \"") + key + "\" is planned" + (parameters ? " of stage 3," : "") + " to \"cpu\"",
          "gpuplan shadow runs the script itself");
    const JsonValue* const ratio = offload->find("ratio");
    if (ratio != nullptr && !(ratio->kind == JsonKind::number && std::strtod(ratio->text.c_str(), nullptr) == 1))
      refuse_at(*offload, "ratio", "a part of the optimizer on the GPU is not planned",
                "\"ratio\": 1, or leave it out");
    if (flag_at(*offload, "super_offload", false))
      refuse_at(*offload, "super_offload", "DeepSpeed's SuperOffload is not planned", "leave it out");
    return true;
  }

  void read_precision() {
    for (const char* key : {"bf16", "bfloat16", "fp16"}) {
      const JsonValue* const type = object_at(root_, key);
      if (type == nullptr || !flag_at(*type, "enabled", false)) continue;
      set("--precision", run_.precision, std::string(key) == "fp16" ? "fp16" : "bf16", *type);
    }
    if (several_.deepspeed_options->stage == 1 && run_.precision != "bf16" && run_.precision != "fp16")
      throw Error("stage 1 is planned as DeepSpeed runs it in bf16 or fp16").at(root_.mark).help("--precision bf16");
  }

  // A batch is that of all ranks.
  void read_batch() {
    if (const auto parts = whole_at(root_, "gradient_accumulation_steps", 1); parts && *parts > 1)
      set("--micro-batches", run_.micro_batches, std::to_string(*parts), *root_.find("gradient_accumulation_steps"));
    const std::int64_t parts =
        run_.micro_batches.empty() ? 1 : whole_number("--micro-batches", run_.micro_batches, 1, kMostGpus);
    if (const auto each = whole_at(root_, "train_micro_batch_size_per_gpu", 1); each && !several_.gpus.empty())
      set("--batch", run_.batch, std::to_string(*each * parts * whole_number("--gpus", several_.gpus, 1, kMostGpus)),
          *root_.find("train_micro_batch_size_per_gpu"));
    if (const auto all = whole_at(root_, "train_batch_size", 1))
      set("--batch", run_.batch, std::to_string(*all), *root_.find("train_batch_size"));
  }

  void set(const char* flag, std::string& option, const std::string& value, const JsonValue& at) const {
    if (!option.empty() && option != value)
      throw Error(std::string(flag) + " says " + option + ", and the file " + value).at(at.mark);
    option = value;
  }

  const JsonValue& root_;
  SeveralGpusOptions& several_;
  RunOptions& run_;
};

}  // namespace

void read_deepspeed(SeveralGpusOptions& several, RunOptions& run) {
  if (several.gpus.empty()) throw Error("--deepspeed needs --gpus", ErrorKind::usage).help("for example --gpus 8");
  const std::shared_ptr<const Source> file = read_file_source(several.deepspeed);
  const JsonValue root = parse_json(*file);
  DeepSpeedReader(root, several, run).read();
}

void fill_in_auto(const DeepSpeedOptions& options, const Model& model, Strategy& strategy) {
  if (!options.is_auto()) return;
  const auto hidden = std::ranges::find(model.vars, "hidden", &Variable::name);
  if (hidden == model.vars.end())
    throw Error("\"auto\" of \"zero_optimization\" follows from hidden_size, and " + model.name +
                    " has no variable called hidden",
                ErrorKind::usage)
        .help("give numbers, such as 5e8");
  const std::int64_t square = checked_mul(hidden->value, hidden->value);
  if (options.bucket_is_auto) strategy.reduce_bucket_elements = square;
  if (options.prefetch_is_auto)
    strategy.partition.prefetch_elements = static_cast<std::int64_t>(0.9 * static_cast<double>(square));
  if (options.persistence_is_auto) strategy.partition.persistence_elements = checked_mul(10, hidden->value);
}

}  // namespace gpuplan
