// `datasheet:` of a GPU file.
#pragma once

#include "estimator/device/datasheet.h"
#include "estimator/spec/yaml.h"

namespace gpuplan {

/// Throws Error, with the place, for what is not a datasheet: unknown keys, numbers that are none or not above 0.
Datasheet read_datasheet(const YamlNode& map);

/// As a file has it, "datasheet:" first. read_datasheet() makes the same of it.
std::string datasheet_yaml(const Datasheet& sheet);

}  // namespace gpuplan
