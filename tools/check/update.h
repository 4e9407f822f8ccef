// gpuplan check --update: limits that were broken, rewritten where they stand.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "estimator/report/check_report.h"

namespace gpuplan {

struct LimitEdit {
  int line = 0;
  std::string before, after;  // the whole line
};

struct BudgetUpdate {
  std::string text;              // of the whole file, comments and layout kept
  std::vector<LimitEdit> edits;  // in the order of the file
  int left = 0;                  // checks that still fail: their growth or a GPU is no number to raise
};

/// Upper and lower limits that failed become what was found, rounded to three digits in the unit that they are written
/// in, away from the limit. `source`: of gpuplan.yaml, which the limits' marks point into.
BudgetUpdate update_limits(const Source& source, const std::vector<CheckResult>& results);

struct FileUpdate {
  std::string text;  // the lines that were edited, before and after, and what is left
  int left = 0;      // checks that still fail
};

/// Edits report.file in `folder`, whose text is `source`: as a whole or not at all. Throws Error: an edit would break
/// another limit; environment where the file cannot be written.
FileUpdate update_file(const CheckReport& report, const std::filesystem::path& folder, const Source& source);

}  // namespace gpuplan
