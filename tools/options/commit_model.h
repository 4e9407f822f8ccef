// Models before they are read, from disk and from commits: what read_model() and causes() take.
#pragma once

#include "estimator/compare/causes.h"
#include "tools/git/commit_files.h"
#include "tools/options/run_options.h"

namespace gpuplan {

/// What --set, --seq and --phase say of a model's variables. Throws Error (usage).
std::vector<Variable> variables_of(const RunOptions& options);
/// The model that `options` names, with its --set. Throws Error.
WrittenModel open_model(const RunOptions& options);
/// The same of a file as a commit has it, with what it extends from the same commit; the model named in `options` is
/// not looked at, and `files` outlives the result. Throws Error: places are "3f2c1ab:configs/gpt2.yaml:6:8".
WrittenModel open_model_at(git::CommitFiles& files, const git::CommitFiles::File& file, const RunOptions& options);

}  // namespace gpuplan
