// Handles of device memory and events between processes: here a child's, read in the parent.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "validate/shadow/runtime/runtime.h"

namespace {
struct Handle {
  std::array<char, 64> bytes;
};
}  // namespace

extern "C" {
int cudaMalloc(void**, std::size_t);
int cudaFree(void*);
int cudaIpcGetMemHandle(Handle*, void*);
int cudaIpcOpenMemHandle(void**, Handle, unsigned);
int cudaIpcCloseMemHandle(void*);
std::int64_t gpuplan_shadow_used_bytes(int);
}

namespace gpuplan::shadow {
namespace {

constexpr int kInvalidValue = 1, kNoContext = 201;

Handle handle_of_a_child(std::size_t bytes) {
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  if (child == 0) {
    void* memory = nullptr;
    Handle handle{};
    const bool good = cudaMalloc(&memory, bytes) == 0 && cudaIpcGetMemHandle(&handle, memory) == 0;
    const bool sent = write(ends[1], handle.bytes.data(), handle.bytes.size()) == 64;
    _exit(good && sent ? 0 : 1);
  }
  Handle handle{};
  CHECK(read(ends[0], handle.bytes.data(), handle.bytes.size()) == 64);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  close(ends[0]);
  close(ends[1]);
  return handle;
}

}  // namespace

TEST_CASE("another process's device memory has an address here, and is charged to nobody else") {
  const Handle handle = handle_of_a_child(64 << 20);
  const std::int64_t before = gpuplan_shadow_used_bytes(0);
  void *one = nullptr, *two = nullptr;
  REQUIRE(cudaIpcOpenMemHandle(&one, handle, 1) == 0);
  REQUIRE(cudaIpcOpenMemHandle(&two, handle, 1) == 0);
  CHECK(one == two);
  CHECK(device_of(static_cast<char*>(one) + (64 << 20) - 1) == 0);
  CHECK(gpuplan_shadow_used_bytes(0) == before);
  CHECK(cudaIpcCloseMemHandle(one) == 0);
  CHECK(device_of(one) == 0);  // opened twice
  CHECK(cudaIpcCloseMemHandle(one) == 0);
  CHECK(cudaIpcCloseMemHandle(one) == kInvalidValue);
}

TEST_CASE("handles that are none, and one's own") {
  Handle handle{};
  void* pointer = nullptr;
  CHECK(cudaIpcOpenMemHandle(&pointer, handle, 1) == kInvalidValue);
  CHECK(cudaIpcGetMemHandle(&handle, &pointer) == kInvalidValue);
  REQUIRE(cudaMalloc(&pointer, 1 << 20) == 0);
  CHECK(cudaIpcGetMemHandle(&handle, pointer) == 0);
  void* again = nullptr;
  CHECK(cudaIpcOpenMemHandle(&again, handle, 1) == kNoContext);  // in the process that exported it, as an H200 says
  CHECK(cudaFree(pointer) == 0);
}

}  // namespace gpuplan::shadow
