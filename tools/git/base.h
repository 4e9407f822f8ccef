// The commit that a change is measured against.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace gpuplan::git {

/// The value of an environment variable, "" where there is none. Passed in, so that tests can stand in for a CI system.
using Environment = std::function<std::string(const std::string& name)>;

struct Base {
  std::string commit;  // the full id
  std::string rule;    // why this one: "first parent of the pull-request merge", "merge base of origin/main"
};

/// `wanted`: a name of a commit, or "auto", for which the first rule that applies decides:
/// 1. A CI system has checked out a merge of the pull request into its target (HEAD is that merge, by GITHUB_REF,
///    CI_MERGE_REQUEST_EVENT_TYPE or BUILD_SOURCEBRANCH): the merge's first parent. What the target's branch has got
///    since the pull request was begun is then on both sides.
/// 2. The merge base of HEAD and the branch that it will go to: the pull request's target, else what origin/HEAD points
///    to, else main or master, of origin or, where there is no such branch, the local one.
/// Throws Error: usage for a commit that is not there; environment where commits are missing, as in a shallow clone,
/// with what to change. There is never silently no base.
Base find_base(const std::filesystem::path& repository, const std::string& wanted, const Environment& environment);

/// The merge base of HEAD and any branch or commit. Throws Error as above.
Base merge_base_with(const std::filesystem::path& repository, const std::string& branch);

}  // namespace gpuplan::git
