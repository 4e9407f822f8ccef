// gpuplan fit --emit: the answer as a job for an engine that rents or queues GPUs.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "estimator/market/instance.h"
#include "estimator/report/fit_table.h"
#include "tools/options/fit_options.h"

namespace gpuplan {

struct FitAnswer {
  FitReport report;
  std::vector<Instance> instances;  // all that are known
  std::size_t model_files = 1;      // that the model is made of
};

enum class Engine : unsigned char { none, sky, slurm };

/// --emit. Throws Error (usage) for what no job can hold, before anything is planned.
Engine engine_of(const FitOptions& options);

/// Takes what is to hold the job out of the files that are to hold reports: `--emit sky -o task.yaml`. What has a
/// format's ending gets the report, as ever.
std::vector<std::string> take_job_files(OutputOptions& output, Engine engine);

/// Writes the job of the chosen row to `files`, to standard output where there are none, or says why nothing fits.
/// Returns the exit code.
int emit_job(const FitAnswer& answer, const FitOptions& options, Engine engine, std::span<const std::string> files);

}  // namespace gpuplan
