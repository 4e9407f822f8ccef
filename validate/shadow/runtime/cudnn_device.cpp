#include "validate/shadow/runtime/cudnn_device.h"

#include <string_view>

namespace gpuplan::shadow::cudnn {
namespace {

class Object {
 public:
  void number(std::string_view key, std::int64_t value) { raw(key, std::to_string(value)); }
  void numbers(std::string_view key, std::int64_t x, std::int64_t y, std::int64_t z) {
    raw(key, "[" + std::to_string(x) + "," + std::to_string(y) + "," + std::to_string(z) + "]");
  }
  void text(std::string_view key, std::string_view value) {
    std::string quoted = "\"";
    for (const char c : value) {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
    raw(key, quoted + "\"");
  }
  std::string finish() && { return text_ + "}"; }

 private:
  void raw(std::string_view key, const std::string& value) {
    text_ += text_.size() > 1 ? ",\"" : "\"";
    text_.append(key).append("\":").append(value);
  }
  std::string text_ = "{";
};

}  // namespace

// The fields that cuDNN 9.10 and 9.26 read. What every GPU since compute capability 5.0 has alike is written out
// (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
std::string describe(const GpuDescription& gpu) {
  Object json;
  json.number("deviceVer", device_version(gpu));
  json.number("multiProcessorCount", gpu.multi_processor_count);
  json.number("warpSize", 32);
  json.number("maxSharedMemoryPerBlock", 49152);
  json.number("maxSharedMemoryPerBlockOptin", gpu.shared_mem_per_block_optin);
  json.number("reservedSharedMemoryPerBlock", gpu.reserved_shared_mem_per_block);
  json.number("maxRegistersPerSM", 65536);
  json.number("maxCtasPerSM", gpu.max_blocks_per_multi_processor);
  json.number("maxThreadsPerBlock", 1024);
  json.number("maxThreadsPerSM", gpu.max_threads_per_multi_processor);
  json.number("regsPerBlock", 65536);
  json.number("totalGlobalMem", gpu.total_global_mem);
  json.number("smClockRateKHz", gpu.clock_rate);
  json.number("l2CacheSize", gpu.l2_cache_size);
  json.numbers("maxBlockSize", 1024, 1024, 64);
  json.number("memClockRateKHz", gpu.memory_clock_rate);
  json.numbers("maxGridSize", 2147483647, 65535, 65535);
  json.number("supportCoopLaunch", 1);
  json.number("pciDeviceId", 0);
  json.number("isTccDriver", 0);
  json.number("cudaDeviceId", 0);
  json.number("driverVer", kNewestCuda);
  json.text("deviceName", gpu.name);
  return std::move(json).finish();
}

}  // namespace gpuplan::shadow::cudnn
