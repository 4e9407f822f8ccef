#include "tools/check/git_baseline.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "estimator/budget/read_budget.h"
#include "tools/check/recorded.h"
#include "tools/check/settings.h"
#include "tools/commit_model.h"
#include "tools/git/commit.h"
#include "tools/git/repository.h"

namespace gpuplan {
namespace {

// One commit, and what its gpuplan.yaml has checked.
class CommitChecks {
 public:
  CommitChecks(std::filesystem::path repository, const std::string& commit) : files_(std::move(repository), commit) {}

  // Returns what there is to say where the file is not as it should be.
  std::string read(const std::string& file) {
    const std::optional<git::CommitFiles::File> found = files_.find(git::path_in_repository(files_.repository(), file));
    if (!found) return "";
    try {
      budget_ = read_budget(found->source, run_keys());
    } catch (const Error& error) {
      return "the base's " + file + " cannot be read (" + error.file() + ":" + std::to_string(error.line()) + ": " +
             error.message() + "): its checks are taken to be as they are now";
    }
    for (const Check& check : budget_.checks) by_name_.emplace(check.name, &check);
    return "";
  }

  BaseCheck find(const Check& head) {
    BaseCheck base;
    const auto same = by_name_.find(head.name);
    base.check = same == by_name_.end() ? head : *same->second;
    const std::string& model = base.check->model;
    RunOptions options = options_of(*base.check);
    if (model.starts_with("zoo:")) {
      options.model = model;
      base.model = open_model(options);
      return base;
    }
    const std::string path = git::path_in_repository(files_.repository(), model);
    const std::optional<git::CommitFiles::File> file = files_.find(path);
    if (!file) {
      base.note = "new: no " + model + " at " + git::short_id(files_.commit());
      return base;
    }
    if (file->path != path) base.note = "was " + file->path;
    if (model != head.model) base.note = "was " + model;
    if (is_recorded(file->source->text)) {
      base.measured = recorded_figures(*file->source, options);
      return base;
    }
    base.model = open_model_at(files_, *file, options);
    return base;
  }

 private:
  git::CommitFiles files_;
  Budget budget_;
  std::unordered_map<std::string, const Check*> by_name_;
};

}  // namespace

Baseline git_baseline(const std::filesystem::path& repository, const std::string& file, const std::string& wanted,
                      const git::Environment& environment) {
  const git::Base base = git::find_base(repository, wanted, environment);
  const auto checks = std::make_shared<CommitChecks>(repository, base.commit);
  Baseline baseline;
  baseline.commit = base.commit;
  baseline.rule = base.rule;
  if (!file.empty())
    if (std::string warning = checks->read(file); !warning.empty()) baseline.warnings.push_back(std::move(warning));
  baseline.find = [checks](const Check& head) { return checks->find(head); };
  return baseline;
}

}  // namespace gpuplan
