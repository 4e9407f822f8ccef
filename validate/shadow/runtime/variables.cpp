// __device__ and __constant__ variables: memory by symbol.
#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "validate/shadow/runtime/abi.h"
#include "validate/shadow/runtime/address_space.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Variable {
  std::size_t bytes;
  std::uintptr_t address;  // 0 until it is asked for
};

struct Variables {
  std::mutex mutex;
  std::unordered_map<const void*, Variable> by_symbol;
};

Variables& program() {
  static auto* const instance = new Variables;
  return *instance;
}

// Variables of a module are part of the context's bytes, not of what cudaMalloc hands out: nothing is charged.
Variable* find_variable(const void* symbol) {
  const auto found = program().by_symbol.find(symbol);
  if (found == program().by_symbol.end()) return nullptr;
  Variable& variable = found->second;
  if (variable.address == 0)
    variable.address = reserve_addresses(0, round_up(std::max<std::size_t>(variable.bytes, 1), kGranularity));
  return variable.address != 0 ? &variable : nullptr;
}

}  // namespace

SHADOW_API void __cudaRegisterVar(void**, char* host, char*, const char*, int, std::size_t bytes, int, int) {
  const std::lock_guard lock(program().mutex);
  program().by_symbol[host] = Variable{bytes, 0};
}
SHADOW_API void __cudaRegisterManagedVar(void**, void** host, char*, const char*, int, std::size_t bytes, int, int) {
  const std::lock_guard lock(program().mutex);
  Variable variable{bytes, reserve_addresses(0, round_up(std::max<std::size_t>(bytes, 1), kGranularity), true)};
  *host = reinterpret_cast<void*>(variable.address);
  program().by_symbol[host] = variable;
}
SHADOW_API cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  *address = reinterpret_cast<void*>(variable->address);
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  *bytes = variable->bytes;
  return cudaSuccess;
}

SHADOW_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t bytes, std::size_t offset,
                                          int) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  if (offset > variable->bytes || bytes > variable->bytes - offset) return fail(cudaErrorInvalidValue);
  copy_memory(reinterpret_cast<void*>(variable->address + offset), source, bytes);
  return cudaSuccess;
}
SHADOW_API cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* source, std::size_t bytes,
                                               std::size_t offset, int kind, Stream*) {
  return cudaMemcpyToSymbol(symbol, source, bytes, offset, kind);
}
SHADOW_API cudaError_t cudaMemcpyFromSymbol(void* destination, const void* symbol, std::size_t bytes,
                                            std::size_t offset, int) {
  const std::lock_guard lock(program().mutex);
  const Variable* const variable = find_variable(symbol);
  if (variable == nullptr) return fail(cudaErrorInvalidSymbol);
  if (offset > variable->bytes || bytes > variable->bytes - offset) return fail(cudaErrorInvalidValue);
  copy_memory(destination, reinterpret_cast<const void*>(variable->address + offset), bytes);
  return cudaSuccess;
}

}  // namespace gpuplan::shadow
