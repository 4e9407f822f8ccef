#include "tools/check/broken_base.h"

namespace gpuplan {

std::string one_line(const Error& error) {
  return error.line() == 0 ? error.message()
                           : error.file() + ":" + std::to_string(error.line()) + ": " + error.message();
}

Error broken_base(const std::string& what, const Error& why) {
  return Error(what + ": " + one_line(why), why.kind())
      .help("--allow-broken-base checks without what of the base cannot be read");
}

}  // namespace gpuplan
