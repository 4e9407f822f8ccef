#include "tools/check/budget_file.h"

#include <system_error>

#include "tools/options/run_options.h"
#include "tools/process/read_source.h"
#include "tools/python_models/python_model.h"

namespace gpuplan {
namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

bool is_within(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

Error refusal(const std::string& message, const Check& check) { return Error(message).at(check.model_mark); }

}  // namespace

std::optional<fs::path> find_budget(const fs::path& start, const std::optional<fs::path>& top) {
  for (fs::path folder = start;; folder = folder.parent_path()) {
    const fs::path yaml = folder / "gpuplan.yaml", yml = folder / "gpuplan.yml";
    if (is_file(yaml) && is_file(yml))
      throw Error(folder.string() + " has both a gpuplan.yaml and a gpuplan.yml").help("choose one with --config FILE");
    for (const fs::path& file : {yaml, yml}) {
      if (!is_file(file)) continue;
      if (top && !lies_within(file, *top)) throw Error(file.string() + " is a link to a file outside the repository");
      std::error_code ignored;
      if (!fs::is_regular_file(file, ignored)) throw Error(file.string() + " is not a regular file");
      return file;
    }
    if (folder == folder.root_path() || (top && folder == *top)) return std::nullopt;
  }
}

bool lies_within(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(file), error);
  return !error && is_within(real, folder);
}

void refuse_outside(const fs::path& file, const fs::path& folder) {
  if (!lies_within(file, folder))
    throw Error("\"" + file.lexically_normal().string() + "\" is outside " + folder.string());
}

void refuse_foreign_model(const Check& check, const fs::path& top) {
  if (check.model == "-") throw refusal("a check's model is a file, not standard input", check);
  const PythonCode code = python_code(check.model);
  if (check.model.starts_with("zoo:") || code == PythonCode::package) return;
  const fs::path model(code == PythonCode::file ? python_file(check.model) : check.model);
  if (model.is_absolute())
    throw refusal("a check's model must be a path from gpuplan.yaml's folder, not " + check.model, check)
        .label("an absolute path does not work on other machines");
  std::error_code error;
  const fs::path real = fs::canonical(model, error);
  if (error == std::errc::too_many_symbolic_link_levels)
    throw refusal("a loop of symbolic links: " + check.model, check);
  if (error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) {
    Error none = refusal("no such file: " + check.model, check);
    for (const std::string& name : zoo_names())
      if (model.stem() == name) none.help("built-in models are written zoo:NAME: zoo:" + name);
    throw none;
  }
  if (error) throw refusal("cannot read " + check.model + ": " + error.message(), check);
  if (!fs::is_regular_file(real, error) && !fs::is_directory(real, error))
    throw refusal(check.model + " is not a regular file", check);
  // A folder is read by a file in it, which may be a link.
  if (!is_within(real, top) || !lies_within(model_file(model.string()), top))
    throw refusal("the model is outside " + top.string(), check).label("expected a path within the repository");
}

}  // namespace gpuplan
