// Instances: those in the program, or of a file, and today's date.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "estimator/base/calendar.h"
#include "estimator/market/instance.h"

namespace gpuplan {

/// `file`: of --prices; "": the embedded ones. Throws Error.
std::vector<Instance> load_instances(const std::string& file, std::span<const Gpu> gpus);
/// Writes names of --provider and --region as the instances have them: case does not count. Throws Error (usage) for
/// those that none has.
void match_places(std::vector<std::string>& providers, std::string& region, std::span<const Instance> instances);
/// The day of the clock, or of SOURCE_DATE_EPOCH (reproducible-builds.org/specs/source-date-epoch) where it is set.
Day today();
/// When the file was last written: when it was downloaded.
Day day_of_file(const std::string& path);

}  // namespace gpuplan
