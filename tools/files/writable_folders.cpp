#include "tools/files/writable_folders.h"

#include <algorithm>
#include <cstdlib>

#include "estimator/base/error.h"

namespace gpuplan {

namespace fs = std::filesystem;

namespace {

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

}  // namespace

void refuse_outside_writable(const fs::path& path, const std::string& name) {
  const char* const variable = std::getenv("GPUPLAN_WRITE_ONLY");
  if (variable == nullptr || *variable == 0) return;
  std::error_code unknown;
  const fs::path place = fs::weakly_canonical(path, unknown);
  const std::string folders = variable;
  for (std::size_t from = 0; from <= folders.size() && !unknown;) {
    const std::size_t end = std::min(folders.find(':', from), folders.size());
    std::error_code missing;
    const fs::path folder = fs::canonical(folders.substr(from, end - from), missing);
    from = end + 1;
    if (!missing && is_below(place, folder)) return;
  }
  throw Error("cannot write " + name + ": GPUPLAN_WRITE_ONLY allows " + folders + " only", ErrorKind::usage);
}

}  // namespace gpuplan
