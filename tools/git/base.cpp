#include "tools/git/base.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "estimator/base/error.h"
#include "tools/git/commit.h"
#include "tools/git/repository.h"
#include "tools/git/run.h"

namespace gpuplan::git {

namespace fs = std::filesystem;

namespace {

constexpr const char* kWholeHistory =
    "fetch the history: on GitHub actions/checkout with fetch-depth: 0, on GitLab GIT_DEPTH: 0, here git fetch "
    "--unshallow";

// "refs/pull/12/merge": what GitHub and Azure Pipelines check out for a pull request.
bool is_pull_request_merge(std::string_view ref) {
  constexpr std::string_view kBefore = "refs/pull/", kAfter = "/merge";
  if (!ref.starts_with(kBefore) || !ref.ends_with(kAfter) || ref.size() <= kBefore.size() + kAfter.size()) return false;
  const std::string_view number = ref.substr(kBefore.size(), ref.size() - kBefore.size() - kAfter.size());
  return std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
}

// A job may have checked out another commit than the one that the CI system made for it: then it is no such merge.
bool is_or_unknown(const std::string& commit, const std::string& head) { return commit.empty() || commit == head; }

// https://docs.github.com/actions/reference/workflows-and-actions/variables
// https://docs.gitlab.com/ci/variables/predefined_variables/ (merge_train: a merge into what the train has so far)
// https://learn.microsoft.com/azure/devops/pipelines/build/variables
bool is_merge_of_a_pull_request(const std::string& head, const Environment& environment) {
  if (is_pull_request_merge(environment("GITHUB_REF"))) return is_or_unknown(environment("GITHUB_SHA"), head);
  if (is_pull_request_merge(environment("BUILD_SOURCEBRANCH")))
    return is_or_unknown(environment("BUILD_SOURCEVERSION"), head);
  const std::string event = environment("CI_MERGE_REQUEST_EVENT_TYPE");
  return (event == "merged_result" || event == "merge_train") && is_or_unknown(environment("CI_COMMIT_SHA"), head);
}

std::optional<Base> parent_of_merge(const fs::path& repository, const std::string& head,
                                    const Environment& environment) {
  if (!is_merge_of_a_pull_request(head, environment)) return std::nullopt;
  const std::vector<std::string> parents = parents_of(repository, head);
  if (parents.size() != 2) return std::nullopt;
  if (!commit_called(repository, parents[0]))
    throw Error("the base is not in this shallow clone: " + short_id(parents[0]) +
                    ", the first parent of the pull-request merge " + short_id(head),
                ErrorKind::environment)
        .help(
            "fetch one more commit: on GitHub, actions/checkout with fetch-depth: 2; on GitLab, GIT_DEPTH: 2 or more");
  return Base{parents[0], "first parent of the pull-request merge"};
}

// The branch of origin that the CI system says the pull request goes to; empty where it says none.
std::string target_branch(const Environment& environment) {
  for (const char* variable :
       {"GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "SYSTEM_PULLREQUEST_TARGETBRANCHNAME"})
    if (const std::string name = environment(variable); !name.empty()) return "refs/remotes/origin/" + name;
  return "";
}

// `git clone --depth 1 --branch topic` follows that branch only, and has origin/HEAD point to it as if it were origin's
// default: git-clone(1), --single-branch.
bool follows_all_branches(const fs::path& repository) {
  return run(repository, {"config", "--get-all", "remote.origin.fetch"}).output.find('*') != std::string::npos;
}

// The branches that HEAD may go to where nothing says which, the likeliest first.
std::vector<std::string> default_branches(const fs::path& repository) {
  std::vector<std::string> names;
  const Result head = run(repository, {"symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"});
  if (head.status == 0 && follows_all_branches(repository)) names.push_back(head.line());
  for (const char* folder : {"refs/remotes/origin/", "refs/heads/"})
    for (const char* name : {"main", "master"}) names.push_back(std::string(folder) + name);
  return names;
}

std::string branch_name(std::string_view ref) {
  for (const std::string_view folder : {"refs/remotes/", "refs/heads/"})
    if (ref.starts_with(folder)) ref.remove_prefix(folder.size());
  return std::string(ref);
}

// GitLab fetches no other branch than the merge request's, and says which commit that one left its target at.
constexpr const char* kGitLabBase = "CI_MERGE_REQUEST_DIFF_BASE_SHA";

Base base_in_target(const fs::path& repository, const std::string& target, const Environment& environment) {
  if (commit_called(repository, target)) return merge_base_with(repository, target);
  const std::string commit = environment(kGitLabBase);
  if (!commit.empty())
    if (const std::optional<std::string> there = commit_called(repository, commit)) return {*there, kGitLabBase};
  throw Error("the base is not in this clone: it lacks " + branch_name(target) + ", where the pull request goes",
              ErrorKind::environment)
      .help(kWholeHistory);
}

Base base_in_default_branch(const fs::path& repository) {
  for (const std::string& branch : default_branches(repository))
    if (commit_called(repository, branch)) return merge_base_with(repository, branch);
  Error error("no branch to compare with: neither origin nor this clone has a main or a master",
              ErrorKind::environment);
  throw error.help(is_shallow(repository) ? kWholeHistory
                                          : "name a commit in place of auto, or run git remote set-head origin --auto");
}

}  // namespace

Base merge_base_with(const fs::path& repository, const std::string& branch) {
  const std::string head = head_commit(repository), other = require_commit(repository, branch);
  if (const std::optional<std::string> base = merge_base(repository, head, other))
    return {*base, "merge base of " + branch_name(branch)};
  Error error("HEAD and " + branch_name(branch) + " have no commit in common", ErrorKind::environment);
  throw error.help(is_shallow(repository) ? kWholeHistory : "name the commit to compare with");
}

Base find_base(const fs::path& repository, const std::string& wanted, const Environment& environment) {
  if (wanted != "auto") return {require_commit(repository, wanted), "the commit named"};
  const std::string head = head_commit(repository);
  if (const std::optional<Base> base = parent_of_merge(repository, head, environment)) return *base;
  const std::string target = target_branch(environment);
  return target.empty() ? base_in_default_branch(repository) : base_in_target(repository, target, environment);
}

}  // namespace gpuplan::git
