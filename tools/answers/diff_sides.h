// The two sides of `gpuplan diff`, from its words: refs of git, files and saved plans.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "estimator/compare/causes.h"
#include "estimator/report/diff_report.h"
#include "estimator/snapshot/snapshot.h"
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
  std::optional<Snapshot> snapshot;         // that it is, or that its plan is, where that was asked for
  std::size_t layers = 0;                   // once planned
  std::string warning;
};
struct OpenSides {
  OpenSide base, now;
};

/// Figures of a plan as they are known of a snapshot: by life, phase and allocation. A run's lines of code and a plan's
/// modules have nothing in common, and are left out of both.
void compare_by_life(OpenSide& planned, Figures& recorded);
/// Of the page: what was allocated in the step of the peak, of the GPU that took most. Empty without a snapshot.
std::string memory_of(const OpenSide& side);

/// With a model, A and B are commits or saved plans: A is the base that `check --base auto` takes where it is left out,
/// and B the working tree. Without one they are two files, models or saved plans; a single model is compared with its
/// base. Throws Error: nothing to compare, no repository, no such commit, a model that is on neither side.
OpenSides open_sides(const DiffWords& words, const RunOptions& run);

}  // namespace gpuplan
