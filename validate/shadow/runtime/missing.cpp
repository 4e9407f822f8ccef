#include "validate/shadow/runtime/missing.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "validate/shadow/runtime/relocations.h"
#include "validate/shadow/runtime/runtime.h"

namespace gpuplan::shadow {
namespace {

struct Answer {
  MissingFunction missing;
  std::uintptr_t status = 0;
  std::atomic<bool> called{false};
};

// Never destroyed: the answers' code refers to it, and libraries may call until the process ends.
struct State {
  std::timed_mutex mutex;
  std::atomic<std::uint64_t> checked{0};                     // loaded_so_far() of the last check
  std::atomic<std::uint64_t> left{0};                        // loaded_so_far() that was left to a thread that checks
  std::set<std::pair<std::string, std::uintptr_t>> objects;  // path and base of those that were looked at
  std::vector<std::unique_ptr<Answer>> answers;
};

State& state() {
  static auto* const instance = new State;
  return *instance;
}

constexpr std::chrono::milliseconds kPatience{100};  // a check takes about 20

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// --- the code of an answer -----------------------------------------------------------------------------------------

/// Where a call of a missing function ends up. Its arguments are not looked at; the ABI has the caller remove them.
extern "C" [[maybe_unused]] std::uintptr_t gpuplan_shadow_answer_missing(Answer* answer) {
  if (!answer->called.exchange(true)) {
    const std::string text = answer->missing.text();
    std::fprintf(stderr, "gpuplan shadow: %s; it answers 'not supported'\n", text.c_str());
    note_unknown(text);
  }
  return answer->status;
}

#if defined(__x86_64__)
constexpr std::size_t kCodeBytes = 32;

/// mov rdi, answer; mov rax, gpuplan_shadow_answer_missing; jmp rax. The stack is the caller's, so it is aligned.
void write_code(unsigned char* code, Answer* answer) {
  const auto argument = reinterpret_cast<std::uintptr_t>(answer);
  const auto target = reinterpret_cast<std::uintptr_t>(&gpuplan_shadow_answer_missing);
  const unsigned char load_rdi[] = {0x48, 0xBF}, load_rax[] = {0x48, 0xB8}, jump_rax[] = {0xFF, 0xE0};
  std::memcpy(code, load_rdi, 2);
  std::memcpy(code + 2, &argument, 8);
  std::memcpy(code + 10, load_rax, 2);
  std::memcpy(code + 12, &target, 8);
  std::memcpy(code + 20, jump_rax, 2);
}

/// Executable code for each of `answers`, kCodeBytes apart; null where the system refuses executable memory.
unsigned char* make_code(const std::vector<Answer*>& answers) {
  const std::size_t bytes = answers.size() * kCodeBytes;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const code = static_cast<unsigned char*>(memory);
  for (std::size_t i = 0; i < answers.size(); ++i) write_code(code + i * kCodeBytes, answers[i]);
  if (mprotect(memory, bytes, PROT_READ | PROT_EXEC) == 0) return code;
  munmap(memory, bytes);
  return nullptr;
}
#endif

// --- finding -------------------------------------------------------------------------------------------------------

/// The shadow runtime itself: the preloaded library, or the program that it is linked into.
struct Own {
  std::uintptr_t base = 0;
  void* handle = nullptr;
};

const Own& own() {
  static const Own instance = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&check_loaded_libraries), &info);
    void* handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr) handle = dlopen(nullptr, RTLD_LAZY);
    return Own{reinterpret_cast<std::uintptr_t>(info.dli_fbase), handle};
  }();
  return instance;
}

/// Whether a call of the function from the object would reach NVIDIA's library, or nothing at all.
bool is_missing(const Reference& reference, void* object) {
  const char* const name = reference.function.c_str();
  if (dlsym(own().handle, name) != nullptr) return false;
  void* found = dlsym(object, name);
  if (found == nullptr) found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) return !reference.weak;
  Dl_info info{};
  return dladdr(found, &info) != 0 && is_cuda_library(file_name(info.dli_fname));
}

/// The object's references to missing functions, by function.
using Missing = std::map<std::string, std::vector<void**>>;

Missing missing_in(const LoadedObject& object, void* handle) {
  Missing missing;
  std::map<std::string, bool> known;
  for (const Reference& reference : object.references) {
    const auto [at, is_new] = known.try_emplace(reference.function, false);
    if (is_new) at->second = is_missing(reference, handle);
    if (at->second) missing[reference.function].push_back(reference.slot);
  }
  return missing;
}

void list(const LoadedObject& object, const std::string& wheel, const Missing& missing) {
  if (const char* const debug = std::getenv("GPUPLAN_SHADOW_DEBUG"); debug == nullptr || *debug != '1') return;
  std::string names;
  for (const auto& [function, slots] : missing) names += " " + function;
  std::fprintf(stderr, "gpuplan shadow: %s (%s) refers to %zu functions that the shadow runtime does not have:%s\n",
               std::string(file_name(object.path)).c_str(), wheel.c_str(), missing.size(), names.c_str());
}

void answer_missing(State& s, const LoadedObject& object, const Missing& missing) {
  const std::string wheel = wheel_of(object.path);
  list(object, wheel, missing);
  std::vector<Answer*> answers;
  for (const auto& [function, slots] : missing) {
    auto answer = std::make_unique<Answer>();
    answer->missing = {function, std::string(file_name(object.path)), wheel};
    answer->status = not_supported(function);
    answers.push_back(answer.get());
    s.answers.push_back(std::move(answer));
  }
#if defined(__x86_64__)
  const unsigned char* code = make_code(answers);
  if (code == nullptr) return;
  for (const auto& [function, slots] : missing) {
    for (void** const slot : slots) redirect(object, slot, const_cast<unsigned char*>(code));
    code += kCodeBytes;
  }
#endif
}

void check_object(State& s, const LoadedObject& object) {
  // Where another thread is loading the object, this waits until it is relocated: what is written now, stays. It also
  // keeps the object loaded.
  void* const handle = dlopen(object.path.empty() ? nullptr : object.path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return;  // unloaded meanwhile, or of the kernel
  const Missing missing = missing_in(object, handle);
  if (missing.empty()) {
    dlclose(handle);
  } else {
    answer_missing(s, object, missing);
  }
}

void check(State& s) {
  // Asked for before the walk, which holds a lock of the loader's that comes after the one that dladdr() takes.
  const std::uintptr_t own_base = own().base;
  const auto wanted = [&](const std::string& path, std::uintptr_t base) {
    if (base == own_base || is_cuda_library(file_name(path))) return false;
    return s.objects.insert({path, base}).second;
  };
  const auto is_cuda = [](std::string_view function) { return !cuda_family(function).empty(); };
  for (const LoadedObject& object : find_references(wanted, is_cuda)) {
    if (!object.references.empty()) check_object(s, object);
  }
}

}  // namespace

std::string MissingFunction::text() const {
  const std::string from = wheel.empty() ? "" : " (" + wheel + ")";
  return (object.empty() ? "the program" : object) + from + " called " + function +
         ", which the shadow runtime does not have";
}

void check_loaded_libraries() {
  State& s = state();
  std::uint64_t loaded = loaded_so_far();
  if (s.checked.load(std::memory_order_acquire) == loaded || s.left.load(std::memory_order_acquire) == loaded) return;
  // Does not wait for long: this thread may be in a constructor of a library that it loads, and so hold the loader's
  // lock, for which the thread that checks may wait. That thread then finds what was loaded meanwhile.
  const std::unique_lock lock(s.mutex, kPatience);
  if (!lock) return s.left.store(loaded, std::memory_order_release);
  const int saved = errno;
  for (; s.checked.load(std::memory_order_relaxed) != loaded; loaded = loaded_so_far()) {
    check(s);
    s.checked.store(loaded, std::memory_order_release);
  }
  dlerror();  // clears what the look-ups left, which the program would take for its own
  errno = saved;
}

std::vector<MissingFunction> missing_functions() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  std::vector<MissingFunction> all;
  for (const auto& answer : s.answers) all.push_back(answer->missing);
  return all;
}

}  // namespace gpuplan::shadow
