// Models as a commit of git has them.
#pragma once

#include "estimator/spec/model.h"
#include "tools/git/commit_files.h"
#include "tools/run_options.h"

namespace gpuplan {

/// What load_model() makes of a file, with `extends:` read from the same commit. The model named in `options` is not
/// looked at. Throws Error: places are "3f2c1ab:configs/gpt2.yaml:6:8".
Model load_model_at(git::CommitFiles& files, const git::CommitFiles::File& file, const RunOptions& options);

}  // namespace gpuplan
