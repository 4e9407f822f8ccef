// libFuzzer target: any bytes are a configuration that imports to a spec, a header of safetensors, or an Error.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "estimator/spec/read.h"
#include "tests/fuzz/fuzz_read.h"
#include "tools/importers/hugging_face.h"
#include "tools/importers/import.h"
#include "tools/importers/safetensors.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const gpuplan::Source source{"fuzz.json", std::string(reinterpret_cast<const char*>(data), size)};
  (void)gpuplan::recognise(source.text, source.name);
  gpuplan::read_or_error([&] { (void)gpuplan::read_model(gpuplan::hugging_face_spec(source)); });
  gpuplan::read_or_error([&] { (void)gpuplan::parse_safetensors_header(source, size); });
  return 0;
}
