// Counting launches, and writing them down where the session asks for it.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/streams.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

struct Recording {
  std::mutex mutex;
  std::FILE* file = nullptr;
  int pid = 0;
};

Recording& recording() {
  static auto* const instance = new Recording;
  return *instance;
}

std::uint64_t id_of(const void* handle) {
  const std::lock_guard lock(stream_mutex());
  const auto stream = stream_of(static_cast<Stream*>(const_cast<void*>(handle)));
  return stream != nullptr ? stream->id : 0;
}

// A line a launch, written at once: the process may be killed. Columns: stream, captured or run, name, configuration.
void write_launch(const void* stream, bool captured, const char* name, const char* configuration) {
  const std::uint64_t id = id_of(stream);
  Recording& r = recording();
  const std::lock_guard lock(r.mutex);
  if (r.file == nullptr || r.pid != getpid()) {
    r.pid = getpid();
    r.file = std::fopen((session_directory() + "/launches." + std::to_string(r.pid) + ".tsv").c_str(), "ae");
    if (r.file == nullptr) return;
  }
  std::fprintf(r.file, "%llu\t%s\t%s\t%s\n", static_cast<unsigned long long>(id), captured ? "captured" : "run", name,
               configuration);
  std::fflush(r.file);
}

constexpr std::span<const std::uintptr_t> kNowhere;

// Of this process and, after fork(), of its parent until then.
std::atomic<std::int64_t> library_calls{0};

bool is_library_call(std::string_view name) { return name.starts_with("cublas") || name.starts_with("cudnnBatchNorm"); }

}  // namespace

bool recording_launches() { return settings().record_launches && !session_directory().empty(); }

void count_launch(const void* stream, const char* name, const char* configuration,
                  std::optional<std::span<const std::uintptr_t>> touched) {
  if (!touched) forget_parts();
  const bool captured = enqueue(static_cast<Stream*>(const_cast<void*>(stream)), 1, touched.value_or(kNowhere));
  if (is_library_call(name)) library_calls.fetch_add(1, std::memory_order_relaxed);
  if (recording_launches()) write_launch(stream, captured, name, configuration);
}

// For tools that are loaded beside: launches so far, and those among them that are library calls.
SHADOW_API std::int64_t gpuplan_shadow_library_calls() { return library_calls.load(std::memory_order_relaxed); }
SHADOW_API std::int64_t gpuplan_shadow_launches() { return counters().launches.load(std::memory_order_relaxed); }

}  // namespace gpuplan::shadow
