// libFuzzer target: any bytes are either an ONNX model whose import is a spec, or an Error.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "estimator/spec/read.h"
#include "tools/importers/onnx.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = ::memfd_create("fuzz.onnx", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, 0) != 0) std::abort();
  if (::pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) std::abort();
  std::shared_ptr<const gpuplan::Source> spec;
  try {
    std::vector<gpuplan::Variable> set;
    spec = gpuplan::onnx_spec("/proc/self/fd/" + std::to_string(file), set);
  } catch (const gpuplan::Error& error) {
    if (error.render().empty()) std::abort();
    return 0;
  }
  try {
    (void)gpuplan::read_model(spec);
  } catch (const gpuplan::Error& error) {
    // Sizes and names may still be what the format refuses, with the line; text that is no YAML may not be.
    if (error.render().find("not YAML") != std::string::npos) std::abort();
  }
  return 0;
}
