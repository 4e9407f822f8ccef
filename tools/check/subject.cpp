#include "tools/check/subject.h"

#include <system_error>

#include "estimator/budget/read_budget.h"
#include "tools/check/budget_file.h"
#include "tools/check/settings.h"
#include "tools/git/repository.h"
#include "tools/process/read_source.h"

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

// Without git there is no repository either, and nothing that needs one but --base.
std::optional<fs::path> repository_if_any(const fs::path& folder, bool needed) {
  try {
    return git::repository_of(folder);
  } catch (const Error&) {
    if (needed) throw;
    return std::nullopt;
  }
}

Error no_budget(const CheckOptions& options) {
  const std::string& word = options.run.model;
  Error error("there is no gpuplan.yaml in this folder or one above it");
  if (!word.empty() && exists(word))
    return error.help("limits of one model: gpuplan check " + word + " --max-peak 8GiB");
  return error.help(
      "gpuplan init --budget MODEL -o gpuplan.yaml writes one; without it: gpuplan check MODEL --max-peak 8GiB");
}

}  // namespace

Subject one_off(const CheckOptions& options) {
  if (!options.names.empty())
    throw Error("limits on the command line are for one model, so \"" + options.names.front() + "\" is one too many",
                ErrorKind::usage);
  if (options.run.model.empty())
    throw Error("no model given", ErrorKind::usage).help("gpuplan check FILE --max-peak 8GiB");
  if (options.update || !options.config.empty())
    throw Error(std::string(options.update ? "--update" : "--config") + " needs gpuplan.yaml: leave out --max-...",
                ErrorKind::usage);
  if (!options.limits.max_growth.empty() && options.base.empty())
    throw Error("--max-growth needs a base: give --base, too", ErrorKind::usage).help("--base auto, or a commit");
  Subject subject;
  subject.budget = one_off_budget(options.run, options.several, options.limits);
  subject.folder = fs::current_path();
  subject.repository = repository_if_any(subject.folder, !options.base.empty());
  return subject;
}

Subject from_file(const CheckOptions& options) {
  RunOptions flags = options.run;
  flags.model.clear();
  std::vector<std::pair<std::string, std::string>> given;
  for (const Setting& setting : settings_of(flags)) given.emplace_back(setting.key, setting.text);
  for (const Setting& setting : settings_of(options.several)) given.emplace_back(setting.key, setting.text);
  if (!flags.margin.empty()) given.emplace_back("margin", flags.margin);
  if (!given.empty())
    throw Error(
        "--" + given.front().first + " belongs to a check of the command line, with --max-peak or another limit",
        ErrorKind::usage)
        .help("the checks of gpuplan.yaml say it themselves: " + given.front().first + ": " + given.front().second);
  Subject subject;
  std::error_code gone;
  const fs::path here = fs::current_path(gone);
  if (gone) throw Error("the current folder no longer exists", ErrorKind::environment);
  subject.repository = repository_if_any(options.config.empty() ? here : fs::absolute(options.config).parent_path(),
                                         !options.base.empty());
  const std::optional<fs::path> found =
      options.config.empty() ? find_budget(here, subject.repository) : std::optional(fs::absolute(options.config));
  if (!found) throw no_budget(options);
  subject.file = found->filename().string();
  subject.folder = found->parent_path();
  std::error_code error;
  fs::current_path(subject.folder, error);
  if (error) throw Error("cannot enter " + subject.folder.string() + ": " + error.message(), ErrorKind::environment);
  subject.folder = fs::canonical(subject.folder);
  subject.budget = read_budget(read_file_source(subject.file), run_keys());
  return subject;
}

}  // namespace gpuplan
