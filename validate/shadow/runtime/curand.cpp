// cuRAND's host interface: generators, and generation as a launch that leaves what was there (zeros, where nothing was
// copied). A generator of the host's writes zeros. https://docs.nvidia.com/cuda/curand/
//
// The state that a real generator keeps in device memory is not modelled. Not here: direction vectors and scramble
// constants, discrete distributions.
#include <cstdint>
#include <cstring>

#include "validate/shadow/runtime/math_library.h"
#include "validate/shadow/runtime/runtime.h"

namespace {

using gpuplan::shadow::pointer_in;
using gpuplan::shadow::Word;

// curandStatus_t
constexpr int kSuccess = 0;
constexpr int kNotInitialized = 101;
constexpr int kOutOfRange = 104;
constexpr int kInitializationFailed = 203;

constexpr const char* kLibrary = "libcurand.so.";

struct Generator {
  const void* stream = nullptr;
  bool on_host = false;
};

int create(Generator** out, bool on_host) {
  if (out == nullptr) return kInitializationFailed;
  *out = new Generator{nullptr, on_host};
  return kSuccess;
}

int need(const Generator* generator) { return generator == nullptr ? kNotInitialized : kSuccess; }

int generate(Word generator, Word output, Word count, std::size_t bytes, const char* name) {
  if (generator == 0) return kNotInitialized;
  const auto& g = *pointer_in<Generator>(generator);
  if (g.on_host) {
    gpuplan::shadow::note_unknown("cuRAND's host generators: every number is 0");
    if (output != 0) std::memset(pointer_in<void>(output), 0, count * bytes);
    return kSuccess;
  }
  gpuplan::shadow::count_launch(g.stream, name);
  return kSuccess;
}

}  // namespace

SHADOW_API int curandCreateGenerator(Generator** generator, int /*type*/) { return create(generator, false); }
SHADOW_API int curandCreateGeneratorHost(Generator** generator, int /*type*/) { return create(generator, true); }
SHADOW_API int curandDestroyGenerator(const Generator* generator) {
  const int status = need(generator);
  delete generator;
  return status;
}
SHADOW_API int curandSetStream(Generator* generator, const void* stream) {
  if (generator == nullptr) return kNotInitialized;
  generator->stream = stream;
  return kSuccess;
}
SHADOW_API int curandSetPseudoRandomGeneratorSeed(const Generator* generator, unsigned long long /*seed*/) {
  return need(generator);
}
SHADOW_API int curandSetGeneratorOffset(const Generator* generator, unsigned long long /*offset*/) {
  return need(generator);
}
SHADOW_API int curandSetGeneratorOrdering(const Generator* generator, int /*order*/) { return need(generator); }
SHADOW_API int curandSetQuasiRandomGeneratorDimensions(const Generator* generator, unsigned /*dimensions*/) {
  return need(generator);
}
SHADOW_API int curandGenerateSeeds(Word generator) { return generate(generator, 0, 0, 0, "curandGenerateSeeds"); }

// Mean, deviation and the like are floating-point arguments, or come after the count.
#define SHADOW_GENERATE(name, bytes)                             \
  SHADOW_API int name(Word generator, Word output, Word count) { \
    return generate(generator, output, count, bytes, #name);     \
  }
SHADOW_GENERATE(curandGenerate, 4)
SHADOW_GENERATE(curandGenerateLongLong, 8)
SHADOW_GENERATE(curandGenerateUniform, 4)
SHADOW_GENERATE(curandGenerateUniformDouble, 8)
SHADOW_GENERATE(curandGenerateNormal, 4)
SHADOW_GENERATE(curandGenerateNormalDouble, 8)
SHADOW_GENERATE(curandGenerateLogNormal, 4)
SHADOW_GENERATE(curandGenerateLogNormalDouble, 8)
SHADOW_GENERATE(curandGeneratePoisson, 4)
SHADOW_GENERATE(curandGeneratePoissonMethod, 4)
SHADOW_GENERATE(curandGenerateBinomial, 4)
SHADOW_GENERATE(curandGenerateBinomialMethod, 4)
#undef SHADOW_GENERATE

SHADOW_API int curandGetProperty(int type, int* value) {
  if (value == nullptr) return kOutOfRange;
  return gpuplan::shadow::library_property(kLibrary, "curandGetProperty", type, value) ? kSuccess : kOutOfRange;
}
SHADOW_API int curandGetVersion(int* version) {
  if (version == nullptr) return kOutOfRange;
  int parts[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    if (const int status = curandGetProperty(i, &parts[i])) return status;
  }
  *version = parts[0] * 1'000 + parts[1] * 100 + parts[2];  // CURAND_VERSION of curand.h
  return kSuccess;
}
