// Stands in front of torch's own functions, so that python/gpuplan_shadow_values.py sees their calls: each function
// that Python has from C is an entry of a table (PyMethodDef) whose pointer Python reads at every call, and that pointer
// is replaced. The function objects stay what they are, wherever they have been kept, and what is not replaced costs
// nothing. (A mode of torch.overrides sees the same calls; torch hands it every one, which took a fifth of a step.)
//
// Python's functions are looked up in the process, so that one library serves every version; those used are in its
// stable ABI. Where a function object keeps its entry is not: gpuplan_shadow_values.py says for which Pythons it is known.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

struct Object;  // a PyObject

using Function = Object* (*)(Object* self, Object* arguments, Object* keywords);

struct Method {  // PyMethodDef
  const char* name;
  Function function;
  int flags;
  const char* documentation;
};

constexpr int kPositional = 0x1, kKeywords = 0x2, kNone = 0x4, kStatic = 0x20;  // flags: METH_VARARGS and so on

struct Python {
  Object* (*make_method)(Object* type, Method*);
  Object* (*make_tuple)(std::ptrdiff_t);
  int (*set_item)(Object* tuple, std::ptrdiff_t, Object* stolen);
  Object* (*tuple_item)(Object*, std::ptrdiff_t);
  std::ptrdiff_t (*tuple_size)(Object*);
  Object* (*call)(Object* callable, Object* arguments, Object* keywords);
  Object* (*call_with)(Object* callable, ...);
  void (*keep)(Object*);
  void (*release)(Object*);
  Object* none;

  bool complete() const {
    return make_method && make_tuple && set_item && tuple_item && tuple_size && call && call_with && keep && release &&
           none;
  }
};

template <typename F>
void look_up(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

const Python& python() {
  static const Python found = [] {
    Python p{};
    look_up(p.make_method, "PyDescr_NewMethod");
    look_up(p.make_tuple, "PyTuple_New");
    look_up(p.set_item, "PyTuple_SetItem");
    look_up(p.tuple_item, "PyTuple_GetItem");
    look_up(p.tuple_size, "PyTuple_Size");
    look_up(p.call, "PyObject_Call");
    look_up(p.call_with, "PyObject_CallFunctionObjArgs");
    look_up(p.keep, "Py_IncRef");
    look_up(p.release, "Py_DecRef");
    look_up(p.none, "_Py_NoneStruct");
    return p;
  }();
  return found;
}

struct Hook {
  Function original = nullptr;
  Object* callable = nullptr;  // what Python calls
  Object* name = nullptr;
  bool method = false;  // of the type of its first argument
  bool keywords = false;
  bool watched = false;  // its values are of interest
};

// 2,048 entries: torch has 1,815 functions of this kind in 2.15, of which some 1,500 can launch a kernel.
constexpr std::size_t kMost = 2048;

struct Hooks {
  Object* call = nullptr;     // called in the place of a watched function: with it, its name, arguments and keywords
  Object* restore = nullptr;  // called where launches of torch's functions can have written over known values
  Object* forget = nullptr;   // called where other launches can have
  std::array<Hook, kMost> all;
  std::size_t count = 0;
};
Hooks& hooks() {
  static Hooks all;
  return all;
}

// Calls are looked at in the thread that asked for it, and not those that torch's functions or the rules make again.
thread_local bool looks = false;
thread_local int unlooked = 0;

class Unlooked {
 public:
  Unlooked() { ++unlooked; }
  ~Unlooked() { --unlooked; }
  Unlooked(const Unlooked&) = delete;
  Unlooked& operator=(const Unlooked&) = delete;
};

// Torch's functions write over nothing that is known: their kernels only seemed to.
Object* restored(Object* result) {
  if (result == nullptr || !has_lost_writes()) return result;
  Object* const done = python().call_with(hooks().restore, nullptr);
  python().release(done != nullptr ? done : result);
  return done != nullptr ? result : nullptr;
}

// A new tuple: self, then the arguments, which may be null.
Object* with_self(Object* self, Object* arguments) {
  const Python& p = python();
  const std::ptrdiff_t count = arguments != nullptr ? p.tuple_size(arguments) : 0;
  Object* const all = p.make_tuple(count + 1);
  if (all == nullptr) return nullptr;
  p.keep(self);
  p.set_item(all, 0, self);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    Object* const argument = p.tuple_item(arguments, i);
    p.keep(argument);
    p.set_item(all, i + 1, argument);
  }
  return all;
}

Object* watched(const Hook& hook, Object* self, Object* arguments, Object* keywords) {
  const Python& p = python();
  Object* const all = hook.method || arguments == nullptr ? with_self(self, arguments) : arguments;
  if (all == nullptr) return nullptr;
  Object* const result = p.call_with(hooks().call, hook.callable, hook.name, all, keywords != nullptr ? keywords : p.none, nullptr);
  if (all != arguments) p.release(all);
  return restored(result);
}

Object* run(const Hook& hook, Object* self, Object* arguments, Object* keywords) {
  if (!hook.keywords) keywords = nullptr;  // the caller gave none: there is whatever lay there
  if (!looks || unlooked > 0) return hook.original(self, arguments, keywords);
  const Unlooked inner;
  if (has_lost_writes()) {
    Object* const done = python().call_with(hooks().forget, nullptr);
    if (done == nullptr) return nullptr;
    python().release(done);
  }
  if (hook.watched) return watched(hook, self, arguments, keywords);
  return restored(hook.original(self, arguments, keywords));
}

// A table's entry says nothing to its function of who it is, so that each has one of its own.
template <std::size_t I>
Object* enter(Object* self, Object* arguments, Object* keywords) {
  return run(hooks().all[I], self, arguments, keywords);
}

template <std::size_t... I>
constexpr std::array<Function, sizeof...(I)> entrances(std::index_sequence<I...>) {
  return {enter<I>...};
}
constexpr std::array<Function, kMost> kEntrances = entrances(std::make_index_sequence<kMost>());

// Some tables are read-only once they have been relocated.
bool make_writable(const Method* method) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto at = reinterpret_cast<std::uintptr_t>(method), first = at / page * page;
  const std::uintptr_t end = at + sizeof(Method);
  return mprotect(reinterpret_cast<void*>(first), end - first, PROT_READ | PROT_WRITE) == 0;
}

// torch.Tensor's `x[i]` and `x[i] = y` are slots of the type, without an entry in a table. These call them.
struct Slot {
  Method method;
  Object* original = nullptr;
};
std::array<Slot, 2>& slots() {
  static std::array<Slot, 2> both;
  return both;
}

template <std::size_t I>
Object* call_slot(Object* self, Object* arguments, Object* /*keywords*/) {
  Object* const all = with_self(self, arguments);
  if (all == nullptr) return nullptr;
  Object* const result = python().call(slots()[I].original, all, nullptr);
  python().release(all);
  return result;
}

}  // namespace

/// Calls of hooked functions in this thread go to `call` from now on. 0 where this Python lacks something. The three are
/// kept for ever.
SHADOW_API int gpuplan_shadow_look(Object* call, Object* restore, Object* forget) {
  if (!python().complete()) return 0;
  for (Object* const kept : {call, restore, forget}) python().keep(kept);
  hooks().call = call;
  hooks().restore = restore;
  hooks().forget = forget;
  looks = true;
  return 1;
}

/// Hooks a function whose table entry's address lies `offset` bytes into `callable`. `is_method`: it takes its first
/// argument as self; `is_watched`: its calls go to `call`. 0 where it is not hooked: already done, no such entry, of a
/// kind that torch has not, or one too many.
SHADOW_API int gpuplan_shadow_hook(Object* callable, std::size_t offset, const char* expected, Object* name,
                                   int is_method, int is_watched) {
  Method* method = nullptr;
  std::memcpy(&method, reinterpret_cast<const char*>(callable) + offset, sizeof method);
  const int kind = method->flags & ~kStatic;
  const bool known = kind == kPositional || kind == (kPositional | kKeywords) || (kind == kNone && is_method != 0);
  Hooks& all = hooks();
  if (!known || std::strcmp(method->name, expected) != 0 || all.count == kMost) return 0;
  for (std::size_t i = 0; i < all.count; ++i) {
    if (method->function == kEntrances[i]) return 0;
  }
  if (!make_writable(method)) return 0;
  python().keep(callable);
  python().keep(name);
  all.all[all.count] = {method->function, callable, name, is_method != 0, (kind & kKeywords) != 0, is_watched != 0};
  method->function = kEntrances[all.count++];
  return 1;
}

/// A method of `type` that calls `original`, a slot's, for gpuplan_shadow_hook() to hook: `which` is 0 or 1. A new
/// reference; the method and `original` are kept for ever.
SHADOW_API Object* gpuplan_shadow_method(Object* type, const char* name, Object* original, int which) {
  Slot& slot = slots()[which == 0 ? 0 : 1];
  python().keep(original);
  slot = {{name, which == 0 ? call_slot<0> : call_slot<1>, kPositional, nullptr}, original};
  return python().make_method(type, &slot.method);
}

/// From here to the next call with 0, this thread's calls are not looked at. They may be nested.
SHADOW_API void gpuplan_shadow_pause(int pause) { unlooked += pause != 0 ? 1 : -1; }

}  // namespace gpuplan::shadow
