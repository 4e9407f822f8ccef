// What checks are compared with: the same files at a commit, or the figures that an earlier run wrote.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/base/error.h"
#include "estimator/budget/judge.h"
#include "estimator/compare/causes.h"
#include "estimator/report/check_report.h"

namespace gpuplan {

/// One check as the base has it.
struct BaseCheck {
  std::string note;  // why there is nothing, or what is another than now: "new", "was configs/old.yaml"
  // Of a commit: the check with the run flags of that time, and its model.
  std::optional<Check> check;
  std::optional<WrittenModel> model;
  // Of a file, or where the base's model is a recording: the figures themselves.
  std::optional<Measured> measured;
  std::map<std::string, std::int64_t> fits;  // device bytes by a GPU's title, where they were saved
};

struct Baseline {
  std::string commit;  // full id; "" of a file
  std::string rule;    // "merge base of origin/main"; of a file its name and what wrote it
  std::vector<std::string> warnings;
  std::vector<std::string> names;  // of the base's checks
  bool is_head = false;            // it is the commit that is checked: nothing is inherited
  bool may_be_broken = false;      // what of it cannot be read is a warning, else an error
  /// Called by one thread at a time, which then reads the model too. Throws Error where the base has none to read.
  std::function<BaseCheck(const Check& head)> find;
};

/// Of a file that `gpuplan check --format json` wrote; `version` is this program's. Throws Error: it is no such file.
Baseline saved_baseline(const std::string& path, std::string_view version);

/// The words of an Error in one line, with its place.
std::string one_line(const Error& error);
/// "WHAT: 3f2c1ab:configs/gpt2.yaml:3: ...", of the kind of `why`, and how to go on without.
Error broken_base(const std::string& what, const Error& why);

}  // namespace gpuplan
