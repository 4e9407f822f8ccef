// The two sides of `gpuplan diff`, from its words: refs of git, files and saved plans.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estimator/compare/causes.h"
#include "estimator/report/diff_report.h"
#include "tools/git/commit_files.h"
#include "tools/options/run_options.h"

namespace gpuplan {

struct DiffWords {
  std::vector<std::string> sides;    // A and B, as far as they are given
  std::optional<std::string> model;  // behind --
  bool merge_base = false;           // the base is the merge base of HEAD and A
};

/// A side before it is planned.
struct OpenSide {
  DiffSide side;                            // its figures where they were saved
  std::shared_ptr<git::CommitFiles> files;  // what `written` reads from, where it is a commit's
  std::optional<WrittenModel> written;      // neither this nor figures: there is no such model on this side
  bool is_trace = false;                    // its figures are those at the flags' values
  bool is_snapshot = false;                 // what was alive is known by line and by life
  std::size_t layers = 0;                   // once planned
  std::string warning;
};
struct OpenSides {
  OpenSide base, now;
};

/// What a plan knows by category, as it is known of a snapshot: by life. A run's lines of code and a plan's modules
/// have nothing in common, and are left out.
void compare_by_life(Figures& planned, Figures& recorded);

/// With a model, A and B are commits or saved plans: A is the base that `check --base auto` takes where it is left out,
/// and B the working tree. Without one they are two files, models or saved plans; a single model is compared with its
/// base. Throws Error: nothing to compare, no repository, no such commit, a model that is on neither side.
OpenSides open_sides(const DiffWords& words, const RunOptions& run);

}  // namespace gpuplan
