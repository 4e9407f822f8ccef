// Jobs for SkyPilot and Slurm. A job for one GPU validates the plan; it builds gpuplan, so it must be launched from the
// source tree. A job for several GPUs runs the user's own script with torchrun: the environment variable TRAIN, such as
// "train.py --batch-size 16".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "estimator/market/instance.h"

namespace gpuplan {

struct RentJob {
  std::string name;                 // of the model
  std::string model;                // "zoo:resnet50", or a file's absolute path
  bool needs_file = false;          // the model is one
  std::vector<std::string> flags;   // of the run, without the model and the GPU: "--batch", "64", ...
  std::string gpu;                  // the one chosen
  std::vector<Instance> instances;  // to try, best first
  bool spot = false;
  std::int64_t processes = 0;  // of torchrun on each instance; 0: one GPU, and gpuplan validates
  std::int64_t nodes = 1;      // instances, or nodes of the cluster
  std::int64_t samples = 0;    // of the batch, for each process
  std::string plan;            // what gpuplan calls the same: "zoo:gpt2 --batch 64 --gpu a100-80gb --gpus 4"
};

/// Whether SkyPilot knows the instance by its name: its clouds, and no list price without an instance.
bool sky_rents(const Instance& instance);
/// The same of several that work together (num_nodes).
bool sky_joins(const Instance& instance);

/// A task of https://docs.skypilot.co/en/latest/reference/yaml-spec.html: the instances that SkyPilot knows in their
/// order, a setup that builds gpuplan, a run that validates; or the requirements of the script, and a run of it.
std::string sky_task(const RentJob& job);
/// The same as a script for sbatch. Partitions and names of GPUs are the cluster's own.
std::string slurm_script(const RentJob& job);

/// A word that a POSIX shell reads as it is, quoted where it has to be.
std::string shell_word(const std::string& word);

}  // namespace gpuplan
