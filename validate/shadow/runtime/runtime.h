// What the files of the runtime share. Each file implements one part of the public CUDA interface as `extern "C"`
// functions marked SHADOW_API, from our own declarations (abi.h and what a file needs for itself); nothing else is
// visible outside the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "validate/shadow/session.h"

#define SHADOW_API extern "C" __attribute__((visibility("default")))

namespace gpuplan::shadow {

// --- session.cpp of the runtime ----------------------------------------------------------------------------------

/// This process's settings, read once from the session; without a session the defaults of Settings.
const Settings& settings();
/// For unit tests, before the first CUDA call: the settings to use in place of a session's.
void use_settings(const Settings& settings);
/// This process's slot in the session's counters (private memory without a session, or with all slots taken). After
/// fork() the child takes a slot of its own.
ProcessCounters& counters();
/// This process's counters are the session's, all of them (or a private copy).
SessionCounters& session_counters();
/// The session's directory; empty without one.
const std::string& session_directory();
/// Returns the device memory of processes that were killed; false where there was none.
bool reclaim_dead_processes();
/// Something that a GPU would decide and we cannot ("cuDNN batch norm in NHWC: workspace taken as 0"). Written to the
/// session once per process and text, for the report's `unknown`.
void note_unknown(std::string_view what);

// --- device_memory.cpp -------------------------------------------------------------------------------------------

/// The calling thread's current device.
int current_device();
/// Device memory of `bytes` (rounded up to 2 MiB as the driver's granularity for large blocks), zero, on `device`;
/// null where the device has no room.
void* allocate_device(int device, std::size_t bytes);
/// False where `pointer` is not the start of a block.
bool free_device(void* pointer);
/// Charges or returns memory that has no address (cuMemCreate). False where the device has no room.
bool charge_device(int device, std::int64_t bytes);
void discharge_device(int device, std::int64_t bytes);
/// Free bytes of `device`, all processes counted.
std::int64_t free_bytes(int device);
/// The device that `pointer` lies on, or -1: host memory.
int device_of(const void* pointer);
/// A copy as a stream would do it. Up to settings().copy_limit it is real; device memory that nobody copied into (only
/// kernels should have written it, see written.h) reads as zero, and so does what a larger copy moves.
void copy_memory(void* destination, const void* source, std::size_t bytes);

// --- launches.cpp ------------------------------------------------------------------------------------------------

/// One more kernel or library computation on `stream` (a graph's node while the stream is being captured). `name` and
/// `configuration` ("grid 1,1,1 block 128,1,1 shared 0" or "") go to launches.PID.tsv where that is recorded.
/// `touched`: the addresses that it can write at; nothing where nobody knows.
void count_launch(const void* stream, const char* name, const char* configuration = "",
                  std::optional<std::span<const std::uintptr_t>> touched = std::nullopt);
/// Whether launches are recorded, so that callers build texts only then.
bool recording_launches();

// --- loaded_libraries.cpp ----------------------------------------------------------------------------------------

/// CUDA's version as 1000 * major + 10 * minor: that of the libcudart which the program would have used (the real
/// library is mapped too, overridden by ours); kNewestCuda where there is none.
int toolkit_version();
/// The path of a loaded library whose file name begins with `prefix` ("libcudnn.so."); empty where there is none.
std::string loaded_library(std::string_view prefix);
/// `name` in the real library whose file name begins with `prefix`, even where ours overrides it; null where there is
/// none.
void* real_symbol(std::string_view prefix, const char* name);
/// Whether this thread is in real_symbol(), to which dlsym() shall not answer with ours (preloaded/dlsym.cpp).
extern thread_local bool looking_for_real;

}  // namespace gpuplan::shadow
