#include "tools/python_models/remembered.h"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sstream>

#include "estimator/base/error.h"
#include "estimator/report/check_findings.h"
#include "tools/process/environment.h"
#include "tools/process/version.h"

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

bool is_as_it_was(const std::string& line) {
  std::istringstream words(line);
  std::uintmax_t size = 0;
  std::int64_t nanoseconds = 0;
  std::string path;
  if (!(words >> size >> nanoseconds) || words.get() != '\t' || !std::getline(words, path)) return false;
  std::error_code problem;
  if (fs::file_size(path, problem) != size || problem) return false;
  const fs::file_time_type written = fs::last_write_time(path, problem);
  if (problem) return false;
  const auto since = std::chrono::file_clock::to_sys(written).time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count() == nanoseconds;
}

}  // namespace

fs::path exports_folder() {
  const std::string cache = environment("XDG_CACHE_HOME"), home = environment("HOME");
  fs::path folder = cache;
  if (!folder.is_absolute()) folder = home.empty() ? fs::path() : fs::path(home) / ".cache";
  if (folder.empty())
    throw Error("neither XDG_CACHE_HOME nor HOME is set: exported models are kept there", ErrorKind::environment);
  folder = folder / "gpuplan" / "models";
  std::error_code problem;
  fs::create_directories(folder, problem);
  if (problem)
    throw Error("cannot make " + folder.string() + ": " + problem.message(), ErrorKind::environment)
        .help("XDG_CACHE_HOME names another folder");
  return folder;
}

fs::path remembered_as(const std::vector<std::string>& words, const Interpreter& i, InFolder where) {
  std::string key = std::string(kVersion) + '\n' + i.python + '\n' + i.package + '\n' + environment("PYTHONPATH");
  for (const std::string& word : words) key += '\n' + word;
  if (where == InFolder::this_one) key += '\n' + fs::current_path().string();
  std::string name = fs::path(words[0]).filename().string();
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return exports_folder() / (name.substr(0, 100) + '-' + fingerprint_of(key) + ".yaml");
}

bool still_holds(const fs::path& spec) {
  std::ifstream sources(spec.string() + ".sources");
  std::string line;
  bool any = false;
  while (std::getline(sources, line)) {
    if (!is_as_it_was(line)) return false;
    any = true;
  }
  return any;
}

}  // namespace gpuplan
