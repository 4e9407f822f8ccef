// The memory, FLOPs and time of a PyTorch step:
//
//   const gpuplan::v0::Report report = gpuplan::v0::plan({"zoo:resnet50"}, {.batch = 64, .gpu = "l4"});
//   if (report.fits == false) ...
//
// Needs neither a GPU nor PyTorch. The namespace is the interface's version: what is in it changes by additions only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpuplan/error.h>
#include <gpuplan/report.h>
#include <gpuplan/spec.h>

namespace gpuplan::v0 {

struct Run {
  std::int64_t batch = 1;         // samples in a step
  std::string optimizer = "sgd";  // `gpuplan explain optimizers` has the others
  std::string gpu;                // "l4", the path of a GPU file, or a size such as "22 GiB"; `gpuplan gpus` lists them
  std::vector<std::string> flags;  // others of `gpuplan plan`: {"--amp=bf16", "--checkpoint=block", "--set=seq=512"}
};

/// Models that nest deeply need a stack of 8 MiB, which the first thread has by default. Throws Error for a spec, a
/// flag or a GPU that is not understood and for a file that cannot be read; that a step does not fit is no error.
Report plan(const Spec& spec, const Run& run = {});

}  // namespace gpuplan::v0
