#include "tools/process/version.h"

namespace gpuplan {

Error internal_error(const std::exception& bug) {
  return Error("internal error in gpuplan " + std::string(kVersion) + ": " + bug.what())
      .help("please report it, with the command and the model");
}

}  // namespace gpuplan
