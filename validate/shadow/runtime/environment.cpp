// The folder of the Python hook stays in front of PYTHONPATH, also where a launcher has set that anew (`env
// PYTHONPATH=src python train.py`): this library is loaded into every program of a session, before the program reads
// its environment.
#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "validate/shadow/session.h"

namespace gpuplan::shadow {
namespace {

// ".../shadow/python" beside this library; empty where the linker was told a name alone.
std::string hook_folder() {
  Dl_info library;
  if (dladdr(reinterpret_cast<const void*>(&hook_folder), &library) == 0) return {};
  const std::string path = library.dli_fname;
  const std::size_t slash = path.rfind('/');
  return slash != std::string::npos ? path.substr(0, slash) + "/python" : std::string{};
}

__attribute__((constructor)) void keep_python_hook() {
  if (std::getenv(kSessionVariable) == nullptr) return;
  const std::string folder = hook_folder();
  const char* const text = std::getenv("PYTHONPATH");
  const std::string others = text != nullptr ? text : "";
  if (folder.empty() || (":" + others + ":").find(":" + folder + ":") != std::string::npos) return;
  setenv("PYTHONPATH", (folder + (others.empty() ? "" : ":" + others)).c_str(), 1);
}

}  // namespace
}  // namespace gpuplan::shadow
