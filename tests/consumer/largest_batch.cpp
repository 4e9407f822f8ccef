// Doubles the batch for as long as the step fits the GPU: largest_batch MODEL GPU
#include <gpuplan/plan.h>
#include <gpuplan/version.h>
#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: largest_batch MODEL GPU\n", stderr);
    return 2;
  }
  try {
    std::int64_t fits = 0;
    for (std::int64_t batch = 1; batch <= 1 << 20; batch *= 2) {
      const gpuplan::v0::Report report = gpuplan::v0::plan(
          {argv[1], ""}, {.batch = batch, .optimizer = "adam", .gpu = argv[2], .flags = {"--amp=bf16"}});
      if (!report.fits.value_or(false)) break;
      fits = batch;
    }
    std::printf("gpuplan %d.%d: a batch of %lld fits\n", GPUPLAN_VERSION_MAJOR, GPUPLAN_VERSION_MINOR,
                static_cast<long long>(fits));
  } catch (const gpuplan::v0::Error& error) {
    std::fputs(error.what(), stderr);
    return 1;
  }
}
