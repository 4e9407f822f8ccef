// gpuplan check --update on the file itself.
#pragma once

#include <filesystem>
#include <string>

#include "estimator/report/check_report.h"

namespace gpuplan {

struct FileUpdate {
  std::string text;  // the lines that were edited, before and after, and what is left
  int left = 0;      // checks that still fail
};

/// Edits report.file in `folder`, whose text is `source`: as a whole or not at all. Throws Error: an edit would break
/// another limit; environment where the file cannot be written.
FileUpdate update_file(const CheckReport& report, const std::filesystem::path& folder, const Source& source);

}  // namespace gpuplan
