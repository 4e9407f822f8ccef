#include "tools/check/git_baseline.h"

#include <algorithm>
#include <memory>
#include <set>
#include <unordered_map>

#include "estimator/budget/read_budget.h"
#include "tools/check/recorded.h"
#include "tools/check/settings.h"
#include "tools/git/commit.h"
#include "tools/git/repository.h"
#include "tools/options/commit_model.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {
namespace {

// One commit, and what its gpuplan.yaml has checked.
class CommitChecks {
 public:
  /// `now`: the names of the checks in gpuplan.yaml as it is now.
  CommitChecks(std::filesystem::path repository, const std::string& commit, std::set<std::string> now)
      : files_(std::move(repository), commit), now_(std::move(now)) {}

  // "": checks of the command line, which are what they are at the base too. Throws Error where the file is not as it
  // should be.
  void read(const std::string& file) {
    if (file.empty()) return;
    of_file_ = true;
    const std::optional<git::CommitFiles::File> found = files_.find(git::path_in_repository(files_.repository(), file));
    if (!found) return;
    folder_ = std::filesystem::path(found->path).parent_path();
    budget_ = read_budget(found->source, run_keys());
    for (const Check& check : budget_.checks) by_name_.emplace(check.name, &check);
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Check& check : budget_.checks) names.push_back(check.name);
    return names;
  }

  BaseCheck find(const Check& head) {
    BaseCheck base;
    const Check* const before = of_file_ ? counterpart(head) : &head;
    if (before == nullptr) {
      base.note = "new: no such check at " + git::short_id(files_.commit());
      return base;
    }
    base.check = *before;
    if (before->name != head.name) base.note = "was " + before->name;
    read_model_of(*before, head, base);
    return base;
  }

 private:
  // The check of that name. Where there is none: one that is gone and was of the same matrix, else of the same model,
  // if it is the only one, has got another name.
  const Check* counterpart(const Check& head) const {
    const auto same = by_name_.find(head.name);
    if (same != by_name_.end()) return same->second;
    const Check* found = nullptr;
    for (const bool by_family : {true, false}) {
      int others = 0;
      for (const Check& check : budget_.checks) {
        const bool alike = by_family ? check.family == head.family : check.model == head.model;
        if (!alike || now_.contains(check.name)) continue;
        found = &check;
        ++others;
      }
      if (others == 1) return found;
      if (others > 1) return nullptr;
    }
    return nullptr;
  }

  void read_model_of(const Check& before, const Check& head, BaseCheck& base) {
    const auto add_note = [&](const std::string& note) { base.note += (base.note.empty() ? "" : ", ") + note; };
    RunOptions options = options_of(before);
    const PythonCode code = python_code(before.model);
    if (code == PythonCode::file) return add_note("no base: " + before.model + " would run the code of a commit");
    if (before.model.starts_with("zoo:") || code == PythonCode::package) {
      options.model = before.model;
      base.model = open_model(options);
      return;
    }
    // As the base's file has it, from the folder that this was in.
    const std::string path = of_file_ ? (folder_ / before.model).lexically_normal().generic_string()
                                      : git::path_in_repository(files_.repository(), before.model);
    std::optional<git::CommitFiles::File> file = files_.find(path);
    if (!file) file = files_.find(path + "/config.json");  // a folder of Hugging Face's
    if (!file) return add_note(why_no_file(path));
    if (file->path != path && file->path != path + "/config.json")
      add_note("was " + file->path);
    else if (before.model != head.model)
      add_note("was " + before.model);
    if (is_recorded(file->source->text)) {
      Check own = before;
      std::erase_if(own.settings, [](const Setting& s) { return s.by_default; });
      const Source all = file->whole.empty() ? *file->source : read_recorded(file->whole, file->source->name);
      base.measured = recorded_figures(all, options_of(own)).measured;
      return;
    }
    base.model = open_model_at(files_, *file, options);
  }

  std::string why_no_file(const std::string& path) const {
    if (!git::is_tracked(files_.repository(), path)) return "no base: " + path + " is not in git";
    return "new: no " + path + " at " + git::short_id(files_.commit());
  }

  git::CommitFiles files_;
  std::set<std::string> now_;
  bool of_file_ = false;
  std::filesystem::path folder_;  // of gpuplan.yaml, in the repository
  Budget budget_;
  std::unordered_map<std::string, const Check*> by_name_;
};

}  // namespace

std::string one_line(const Error& error) {
  return error.line() == 0 ? error.message()
                           : error.file() + ":" + std::to_string(error.line()) + ": " + error.message();
}

Error broken_base(const std::string& what, const Error& why) {
  return Error(what + ": " + one_line(why), why.kind())
      .help("--allow-broken-base skips what cannot be read in the base");
}

Baseline git_baseline(const std::filesystem::path& repository, const std::string& file, const Budget& now,
                      const std::string& wanted, const git::Environment& environment, bool may_be_broken) {
  const git::Base base = git::find_base(repository, wanted, environment);
  std::set<std::string> names;
  for (const Check& check : now.checks) names.insert(check.name);
  const auto checks = std::make_shared<CommitChecks>(repository, base.commit, std::move(names));
  Baseline baseline;
  baseline.commit = base.commit;
  baseline.rule = base.rule;
  baseline.is_head = wanted == "auto" && base.commit == git::head_commit(repository);
  if (baseline.is_head) baseline.rule += ", which is HEAD: no failure counts as inherited";
  baseline.may_be_broken = may_be_broken;
  try {
    checks->read(file);
  } catch (const Error& error) {
    if (!may_be_broken) throw broken_base("the base's gpuplan.yaml cannot be read", error);
    baseline.warnings.push_back("the base's gpuplan.yaml cannot be read (" + one_line(error) +
                                "): growth is not checked");
  }
  baseline.names = checks->names();
  baseline.find = [checks](const Check& head) { return checks->find(head); };
  return baseline;
}

}  // namespace gpuplan
