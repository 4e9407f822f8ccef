// References of loaded objects to functions of other objects, and where they are stored.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace gpuplan::shadow {

struct Reference {
  std::string function;
  void** slot = nullptr;  // the address that a call goes through, or that the program took
  bool weak = false;      // null where nobody defines it, which the program asks about
};

struct LoadedObject {
  std::string path;  // empty: the program itself
  std::uintptr_t base = 0;
  std::uintptr_t read_only_begin = 0, read_only_end = 0;  // pages that the loader protected once it was done (RELRO)
  std::vector<Reference> references;
};

/// How many objects the process has loaded so far, unloaded ones included. A few hundred nanoseconds.
std::uint64_t loaded_so_far();

/// Every loaded object whose file name and base address `wanted_object` accepts, with its references to functions that
/// it does not define and whose name `wanted_function` accepts. Neither may call the
/// dynamic loader (dlopen(), dladdr(), ...): its lock is held.
std::vector<LoadedObject> find_references(const std::function<bool(const std::string&, std::uintptr_t)>& wanted_object,
                                          const std::function<bool(std::string_view)>& wanted_function);

/// Stores `target` at a slot of `object`, also where the loader has protected it. The caller keeps the object loaded
/// and no other thread redirects meanwhile. False where the page cannot be made writable.
bool redirect(const LoadedObject& object, void** slot, void* target);

}  // namespace gpuplan::shadow
