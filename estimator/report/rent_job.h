// A job that measures what a plan predicts, for engines that rent or queue GPUs: SkyPilot's task and Slurm's script.
// The source tree is what the job builds, so that it is launched from there.
#pragma once

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
};

/// Whether SkyPilot knows the instance by its name: its clouds, and no list price without an instance.
bool sky_rents(const Instance& instance);

/// A task of https://docs.skypilot.co/en/latest/reference/yaml-spec.html: the instances that SkyPilot knows in their
/// order, a setup that builds gpuplan, a run that validates.
std::string sky_task(const RentJob& job);
/// The same as a script for sbatch. Partitions and names of GPUs are the cluster's own.
std::string slurm_script(const RentJob& job);

/// A word that a POSIX shell reads as it is, quoted where it has to be.
std::string shell_word(const std::string& word);

}  // namespace gpuplan
