// What is wrong, one by one, for the formats that put it on lines of files.
#pragma once

#include <string>
#include <vector>

#include "estimator/report/check_report.h"

namespace gpuplan {

/// A place in a file of the repository.
struct FindingPlace {
  std::string path;          // from the repository's top; "": nowhere
  int line = 1, column = 0;  // 1-based, in code points; column 0: the whole line
  int end_column = 0;        // behind the last; 0: not known
  std::string what;          // "the limit"
};

struct Finding {
  std::string check;
  std::string rule;     // "peak", "growth", "fits": stable
  bool error = false;   // else a warning
  std::string message;  // one sentence
  FindingPlace place;   // the line that changed where one is known, else the limit's
  std::vector<FindingPlace> related;
  std::string fingerprint;  // the same for the same limit of the same check, whatever moves in the files
};

/// Broken limits and checks that cannot be planned, errors first; in the order of the checks otherwise. Muted ones are
/// not among them.
std::vector<Finding> findings(const CheckReport& report);

/// 64-bit FNV-1a, in hexadecimal digits (datatracker.ietf.org/doc/html/draft-eastlake-fnv): a name for a text, no
/// secret.
std::string fingerprint_of(const std::string& text);

}  // namespace gpuplan
