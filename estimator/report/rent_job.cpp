#include "estimator/report/rent_job.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "estimator/base/number_text.h"

namespace gpuplan {
namespace {

// Clouds whose instances have the same names in SkyPilot's catalogs.
constexpr std::array<std::string_view, 8> kSkyClouds = {"aws", "azure",      "gcp",    "lambda",
                                                        "oci", "paperspace", "runpod", "vast"};
// CloudImplementationFeatures.MULTI_NODE is among what these do not support (sky/clouds/runpod.py, vast.py).
constexpr std::array<std::string_view, 2> kSingleNodeClouds = {"runpod", "vast"};
// Regions of the others are words of price lists, such as "secure cloud".
constexpr std::array<std::string_view, 3> kCloudsWithRegions = {"aws", "azure", "gcp"};

// GCP's machine types are refused without their GPUs (sky/catalog/gcp_catalog.py,
// check_accelerator_attachable_to_host).
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kGcpAccelerators = {{{"t4", "T4"},
                                                                                             {"l4", "L4"},
                                                                                             {"p4", "P4"},
                                                                                             {"p100-pcie", "P100"},
                                                                                             {"v100-sxm2-16gb", "V100"},
                                                                                             {"a100-40gb", "A100"},
                                                                                             {"a100-80gb", "A100-80GB"},
                                                                                             {"h100", "H100"},
                                                                                             {"h200", "H200"},
                                                                                             {"b200", "B200"}}};

std::string_view gcp_accelerator(const Instance& i) {
  if (i.name.starts_with("a3-megagpu")) return "H100-MEGA";
  const auto found = std::ranges::find(kGcpAccelerators, i.gpu, &std::pair<std::string_view, std::string_view>::first);
  return found == kGcpAccelerators.end() ? std::string_view() : found->second;
}

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// What YAML and a comment in a shell can hold on a line.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

// A word of a job's name: both engines take letters, digits and dashes.
std::string job_name(const RentJob& job) {
  std::string name = "gpuplan-" + job.name;
  std::ranges::replace_if(
      name, [](char c) { return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')); }, '-');
  return name;
}

// Where the job finds the file, which may lie anywhere here; its ending says what it is.
std::string mounted(const RentJob& job) {
  const std::size_t dot = job.model.find_last_of("./");
  const bool has_ending = dot != std::string::npos && job.model[dot] == '.';
  return "/tmp/gpuplan-model" + (has_ending ? job.model.substr(dot) : "");
}

std::string validate_command(const RentJob& job, const std::string& model) {
  std::string out = "tools/run validate " + shell_word(model);
  for (const std::string& flag : job.flags) out += " " + shell_word(flag);
  return out + " -o validate.json";
}

// What the script is given, and how to find it out again.
std::string train_words(const RentJob& job) {
  const std::int64_t all = job.nodes * job.processes;
  return "# " + std::to_string(all) + (all == 1 ? " process" : " processes, one per GPU") + ", " +
         std::to_string(job.samples) + " samples for each. Memory of each:\n#   gpuplan " + one_line(job.plan) + "\n";
}

std::string train_example(const RentJob& job) { return "train.py --batch-size " + std::to_string(job.samples); }

// Words of TRAIN are split as they are on a command line.
std::string torchrun(const RentJob& job, const std::string& nodes) {
  return "torchrun " + (job.nodes == 1 ? "--standalone" : nodes) +
         " --nproc-per-node=" + std::to_string(job.processes) + " $TRAIN";
}

// Single quotes keep everything but themselves, which are doubled.
std::string yaml_word(const std::string& word) {
  std::string out = "'";
  for (const char c : one_line(word)) out += c == '\'' ? "''" : std::string(1, c);
  return out + "'";
}

std::string sky_choice(const Instance& i, bool spot) {
  std::string infra = i.provider;
  if (contains(kCloudsWithRegions, i.provider) && !i.region.empty()) infra += "/" + i.region;
  std::string out = "    - infra: " + yaml_word(infra) + "\n";
  // "n1-standard-8+1x-t4": the host and its GPU.
  out += "      instance_type: " + yaml_word(i.name.substr(0, i.name.find('+'))) + "\n";
  if (i.provider == "gcp")
    out += "      accelerators: " + yaml_word(std::string(gcp_accelerator(i)) + ":" + number_text(i.gpu_count)) + "\n";
  const std::optional<double>& usd = spot ? i.spot_usd : i.usd;
  return out + "      # " + i.gpu + ", " + (usd ? number_text(*usd) + " USD/h as of " : "no price, ") +
         one_line(i.price_date) + (i.notes.empty() ? "" : "; " + one_line(i.notes)) + "\n";
}

}  // namespace

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

bool sky_joins(const Instance& i) { return sky_rents(i) && !contains(kSingleNodeClouds, i.provider); }

bool sky_rents(const Instance& i) {
  if (!contains(kSkyClouds, i.provider) || i.name.find(' ') != std::string::npos) return false;
  return i.provider != "gcp" || !gcp_accelerator(i).empty();
}

namespace {

std::string sky_choices(const RentJob& job) {
  std::string out = "resources:\n";
  if (job.spot) out += "  use_spot: true\n";
  out += "  ordered:\n";
  for (const Instance& i : job.instances)
    if (sky_rents(i)) out += sky_choice(i, job.spot);
  return out;
}

// https://docs.skypilot.co/en/stable/running-jobs/distributed-jobs.html; a variable that is null has to be given.
std::string sky_training(const RentJob& job) {
  std::string out =
      "# Written by gpuplan fit --emit sky. Prices change: sky launch shows those of the day and asks before it "
      "rents.\n" +
      train_words(job) + "# From your script's folder: sky launch --env TRAIN='" + train_example(job) +
      "' THIS-FILE\n"
      "name: " +
      job_name(job) + "\nworkdir: .\n";
  if (job.nodes > 1) out += "num_nodes: " + std::to_string(job.nodes) + "\n";
  out += "envs:\n  TRAIN: null\n" + sky_choices(job);
  out += "setup: |\n  if [ -f requirements.txt ]; then pip install -r requirements.txt; else pip install torch; fi\n";
  return out + "run: |\n  " +
         torchrun(job,
                  "--nnodes=$SKYPILOT_NUM_NODES --node-rank=$SKYPILOT_NODE_RANK --master-addr=$(echo "
                  "\"$SKYPILOT_NODE_IPS\" | head -n 1) --master-port=8008") +
         "\n";
}

}  // namespace

std::string sky_task(const RentJob& job) {
  if (job.processes > 0) return sky_training(job);
  std::string out =
      "# Written by gpuplan fit --emit sky. Prices change: sky launch shows those of the day and asks before it "
      "rents.\n"
      "# From a clone of gpuplan: sky launch THIS-FILE\n"
      "name: " +
      job_name(job) + "\nworkdir: .\n" + sky_choices(job);
  if (job.needs_file) out += "file_mounts:\n  " + yaml_word(mounted(job)) + ": " + yaml_word(job.model) + "\n";
  out += "setup: |\n  tools/run version\n";
  // Lines of a literal block are indented alike, so that none of the command may begin another.
  return out + "run: |\n  " + one_line(validate_command(job, job.needs_file ? mounted(job) : job.model)) + "\n";
}

namespace {

// A kind of GPU as a cluster may call it; a name that is none is left out, which asks for any.
std::string gres(const std::string& gpu, std::int64_t count) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  const bool named = !gpu.empty() && std::ranges::all_of(gpu, plain);
  return "gpu:" + (named ? gpu + ":" : std::string()) + std::to_string(count);
}

std::string slurm_training(const RentJob& job) {
  std::string out =
      "#!/bin/bash\n"
      "# Written by gpuplan fit --emit slurm for GPUs of the kind " +
      one_line(job.gpu) + ".\n" + train_words(job) + "# From your script's folder: TRAIN='" + train_example(job) +
      "' sbatch THIS-FILE. Your cluster may call that GPU\n"
      "# differently (sinfo -o \"%G\"), and may need a partition, an account or another time limit.\n"
      "#SBATCH --job-name=" +
      job_name(job) + "\n#SBATCH --nodes=" + std::to_string(job.nodes) +
      "\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=" + gres(job.gpu, job.processes) +
      "\n#SBATCH --cpus-per-task=" + std::to_string(4 * job.processes) +
      "\n"
      "#SBATCH --time=01:00:00\n"
      "set -euo pipefail\n"
      ": \"${TRAIN:?is your script and its arguments}\"\n";
  if (job.nodes > 1) out += "first=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | sed -n 1p)\nsrun ";
  return out +
         torchrun(job,
                  "--nnodes=$SLURM_JOB_NUM_NODES --rdzv-id=$SLURM_JOB_ID --rdzv-backend=c10d "
                  "--rdzv-endpoint=$first:29500") +
         "\n";
}

}  // namespace

std::string slurm_script(const RentJob& job) {
  if (job.processes > 0) return slurm_training(job);
  return "#!/bin/bash\n"
         "# Written by gpuplan fit --emit slurm for a GPU of the kind " +
         one_line(job.gpu) +
         ".\n"
         "# From a clone of gpuplan: sbatch THIS-FILE. Your cluster may call that GPU otherwise (sinfo -o \"%G\"), and "
         "want a\n"
         "# partition or an account too.\n"
         "#SBATCH --job-name=" +
         job_name(job) + "\n#SBATCH --gres=" + gres(job.gpu, 1) +
         "\n"
         "#SBATCH --cpus-per-task=4\n"
         "#SBATCH --time=00:30:00\n"
         "set -euo pipefail\n" +
         one_line(validate_command(job, job.model)) + "\n";
}

}  // namespace gpuplan
