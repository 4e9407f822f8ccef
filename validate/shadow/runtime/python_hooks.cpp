// Stands in front of torch's own functions, so that python/gpuplan_shadow_values.py sees their calls: each function
// that Python has from C is an entry of a table (PyMethodDef) whose pointer Python reads at every call, and that
// pointer is replaced. The function objects stay what they are, wherever they have been kept, and what is not replaced
// costs nothing. (A mode of torch.overrides sees the same calls; torch hands it every one, which took a fifth of a
// step.)
//
// Python's functions are looked up in the process, so that one library serves every version; those used are in its
// stable ABI. Where a function object keeps its entry is not: gpuplan_shadow_values.py says for which Pythons it is
// known.
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

constexpr int kPositional = 0x1, kKeywords = 0x2, kNoArguments = 0x4, kStatic = 0x20;  // flags: METH_VARARGS and so on

struct Python {
  Object* (*make_tuple)(std::ptrdiff_t);
  int (*set_item)(Object* tuple, std::ptrdiff_t, Object* stolen);
  Object* (*tuple_item)(Object*, std::ptrdiff_t);
  std::ptrdiff_t (*tuple_size)(Object*);
  Object* (*call)(Object* callable, Object* arguments, Object* keywords);
  Object* (*call_with)(Object* callable, ...);
  void (*keep)(Object*);
  void (*release)(Object*);
  int (*is_true)(Object*);
  Object* (*type_of)(Object*);
  Object* (*attribute)(Object*, Object* name);
  Object* (*call_method)(Object*, Object* name, ...);
  Object* (*dictionary_item)(Object*, Object* key);
  Object* (*make_name)(const char*);
  void (*clear_error)();
  Object* none;

  bool complete() const {
    return make_tuple && set_item && tuple_item && tuple_size && call && call_with && keep && release && is_true &&
           type_of && attribute && call_method && dictionary_item && make_name && clear_error && none;
  }
};

template <typename F>
void look_up(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

const Python& python() {
  static const Python found = [] {
    Python p{};
    look_up(p.make_tuple, "PyTuple_New");
    look_up(p.set_item, "PyTuple_SetItem");
    look_up(p.tuple_item, "PyTuple_GetItem");
    look_up(p.tuple_size, "PyTuple_Size");
    look_up(p.call, "PyObject_Call");
    look_up(p.call_with, "PyObject_CallFunctionObjArgs");
    look_up(p.keep, "Py_IncRef");
    look_up(p.release, "Py_DecRef");
    look_up(p.is_true, "PyObject_IsTrue");
    look_up(p.type_of, "PyObject_Type");
    look_up(p.attribute, "PyObject_GetAttr");
    look_up(p.call_method, "PyObject_CallMethodObjArgs");
    look_up(p.dictionary_item, "PyDict_GetItemWithError");
    look_up(p.make_name, "PyUnicode_InternFromString");
    look_up(p.clear_error, "PyErr_Clear");
    look_up(p.none, "_Py_NoneStruct");
    return p;
  }();
  return found;
}

// How much a function's values are of interest.
enum class Interest {
  none,
  if_known,   // where its first argument is known: `begins_unknown` is asked
  of_bounds,  // the same, and otherwise `of_unknown` is told of the result
  always,
};

struct Hook {
  Function original = nullptr;
  Object* callable = nullptr;  // what Python calls
  Object* name = nullptr;
  bool method = false;  // takes its first argument as self
  bool keywords = false;
  Interest interest = Interest::none;
};

// PyTorch 2.15 has 1,722 functions to hook.
constexpr std::size_t kMost = 2048;

struct Hooks {
  // What Python is asked: see `Hooks` of python/gpuplan_shadow_runtime.py.
  Object *call = nullptr, *begins_unknown = nullptr, *of_unknown = nullptr, *restore = nullptr, *forget = nullptr;
  Object* entries = nullptr;  // a dictionary by the address of a storage: of which something is known
  Object* tensor = nullptr;   // the type
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

// Runs the function itself, without a Python frame of ours below it: allocations are noted with their stack.
Object* of_unknown(const Hook& hook, Object* self, Object* arguments, Object* keywords) {
  Object* const result = hook.original(self, arguments, keywords);
  if (result == nullptr || hook.interest != Interest::of_bounds) return result;
  Object* const done = python().call_with(hooks().of_unknown, hook.name, result, nullptr);
  python().release(done != nullptr ? done : result);
  return done != nullptr ? result : nullptr;
}

// Whether the first argument is a tensor of floats of which nothing is known: by far the most are, and this takes a
// fifth of what asking Python takes. Whatever cannot be told is Python's to tell.
bool begins_with_unknown_floats(Object* arguments) {
  static Object* const floating = python().make_name("is_floating_point");
  static Object* const storage_of = python().make_name("untyped_storage");
  static Object* const address_of = python().make_name("_cdata");
  const Python& p = python();
  if (p.tuple_size(arguments) == 0) return false;
  Object* const tensor = p.tuple_item(arguments, 0);
  Object* const type = p.type_of(tensor);
  p.release(type);
  if (type != hooks().tensor) return false;
  Object* const is_floating = p.call_method(tensor, floating, nullptr);
  Object* const storage = p.call_method(tensor, storage_of, nullptr);
  Object* const address = storage != nullptr ? p.attribute(storage, address_of) : nullptr;
  const bool told = is_floating != nullptr && address != nullptr;
  const bool unknown = told && p.is_true(is_floating) > 0 && p.dictionary_item(hooks().entries, address) == nullptr;
  for (Object* const made : {is_floating, storage, address}) {
    if (made != nullptr) p.release(made);
  }
  p.clear_error();
  return unknown;
}

Object* watched(const Hook& hook, Object* self, Object* arguments, Object* keywords) {
  const Python& p = python();
  Object* const all = hook.method ? with_self(self, arguments) : arguments;
  if (all == nullptr) return nullptr;
  Object* result = nullptr;
  int unknown = hook.interest != Interest::always && begins_with_unknown_floats(all) ? 1 : 0;
  if (hook.interest != Interest::always && unknown == 0) {
    Object* const said = p.call_with(hooks().begins_unknown, hook.name, all, nullptr);
    unknown = said != nullptr ? p.is_true(said) : -1;
    if (said != nullptr) p.release(said);
  }
  if (unknown > 0) result = of_unknown(hook, self, arguments, keywords);
  if (unknown == 0) {
    result = p.call_with(hooks().call, hook.callable, hook.name, all, keywords != nullptr ? keywords : p.none, nullptr);
  }
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
  if (hook.interest != Interest::none) return watched(hook, self, arguments, keywords);
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

// `x[i]` and `x[i] = y` are slots of the type, without an entry in a table. (A method of that name would make a
// sequence of every tensor: PySequence_Check() looks for one.)
struct Mapping {  // PyMappingMethods
  std::ptrdiff_t (*length)(Object*);
  Object* (*subscript)(Object* self, Object* key);
  int (*assign)(Object* self, Object* key, Object* value);
};

struct Subscripts {
  Mapping original{};
  Hook get, set;
};
Subscripts& subscripts() {
  static Subscripts both;
  return both;
}

Object* get_original(Object* self, Object* arguments, Object* /*keywords*/) {
  return subscripts().original.subscript(self, python().tuple_item(arguments, 0));
}

Object* set_original(Object* self, Object* arguments, Object* /*keywords*/) {
  const Python& p = python();
  if (subscripts().original.assign(self, p.tuple_item(arguments, 0), p.tuple_item(arguments, 1)) != 0) return nullptr;
  p.keep(p.none);
  return p.none;
}

Object* get(Object* self, Object* key) {
  if (!looks || unlooked > 0) return subscripts().original.subscript(self, key);
  Object* const arguments = with_self(key, nullptr);
  if (arguments == nullptr) return nullptr;
  Object* const result = run(subscripts().get, self, arguments, nullptr);
  python().release(arguments);
  return result;
}

int set(Object* self, Object* key, Object* value) {
  if (!looks || unlooked > 0 || value == nullptr) return subscripts().original.assign(self, key, value);
  Object* const last = with_self(value, nullptr);
  if (last == nullptr) return -1;
  Object* const arguments = with_self(key, last);
  python().release(last);
  if (arguments == nullptr) return -1;
  Object* const result = run(subscripts().set, self, arguments, nullptr);
  python().release(arguments);
  if (result == nullptr) return -1;
  python().release(result);
  return 0;
}

}  // namespace

/// Calls of hooked functions in this thread are looked at from now on. `asked`: call, begins_unknown, of_unknown,
/// restore and forget; `entries`, `tensor`: see Hooks. All are kept for ever. 0 where this Python lacks something.
SHADOW_API int gpuplan_shadow_look(Object* asked, Object* entries, Object* tensor) {
  const Python& p = python();
  if (!p.complete()) return 0;
  for (Object* const kept : {asked, entries, tensor}) p.keep(kept);
  Hooks& all = hooks();
  std::ptrdiff_t next = 0;
  for (Object** const one : {&all.call, &all.begins_unknown, &all.of_unknown, &all.restore, &all.forget}) {
    *one = p.tuple_item(asked, next++);
  }
  all.entries = entries;
  all.tensor = tensor;
  looks = true;
  return 1;
}

/// Hooks a function whose table entry's address lies `offset` bytes into `callable`. `is_method`: it takes its first
/// argument as self; `interest`: an Interest. 0 where it is not hooked: already done, no such entry, or of a kind that
/// torch has not; -1 where there is no room.
SHADOW_API int gpuplan_shadow_hook(Object* callable, std::size_t offset, const char* expected, Object* name,
                                   int is_method, int interest) {
  auto* const method = *reinterpret_cast<Method**>(reinterpret_cast<char*>(callable) + offset);
  const int kind = method->flags & ~kStatic;
  const bool known =
      kind == kPositional || kind == (kPositional | kKeywords) || (kind == kNoArguments && is_method != 0);
  Hooks& all = hooks();
  if (!known || std::strcmp(method->name, expected) != 0) return 0;
  for (std::size_t i = 0; i < all.count; ++i) {
    if (method->function == kEntrances[i]) return 0;
  }
  if (all.count == kMost) return -1;
  if (!make_writable(method)) return 0;
  python().keep(callable);
  python().keep(name);
  all.all[all.count] = {
      method->function, callable, name, is_method != 0, (kind & kKeywords) != 0, static_cast<Interest>(interest)};
  method->function = kEntrances[all.count++];
  return 1;
}

/// Hooks `x[i]` and `x[i] = y` of a type, whose slots' address lies `offset` bytes into it and which has the slots that
/// the first hooked type has. The other arguments are what Python calls, and their names. 0 where it is not hooked.
SHADOW_API int gpuplan_shadow_hook_subscripts(Object* type, std::size_t offset, Object* get_item, Object* get_name,
                                              Object* set_item, Object* set_name) {
  constexpr int kAssign = 3, kSubscript = 5;  // Py_mp_ass_subscript, Py_mp_subscript
  void* (*slot)(Object*, int) = nullptr;
  look_up(slot, "PyType_GetSlot");
  auto* const mapping = *reinterpret_cast<Mapping**>(reinterpret_cast<char*>(type) + offset);
  if (slot == nullptr || mapping == nullptr) return 0;
  const Mapping found = *mapping;
  const bool told = slot(type, kSubscript) == reinterpret_cast<void*>(found.subscript) &&
                    slot(type, kAssign) == reinterpret_cast<void*>(found.assign) && found.subscript != nullptr;
  Subscripts& both = subscripts();
  if (!told || found.assign == nullptr) return 0;
  if (both.original.subscript == nullptr) {
    for (Object* const kept : {get_item, get_name, set_item, set_name}) python().keep(kept);
    both.original = found;
    both.get = {get_original, get_item, get_name, true, false, Interest::always};
    both.set = {set_original, set_item, set_name, true, false, Interest::always};
  }
  if (found.subscript != both.original.subscript || found.assign != both.original.assign) return 0;
  mapping->subscript = get;
  mapping->assign = set;
  return 1;
}

/// From here to the next call with 0, this thread's calls are not looked at. They may be nested.
SHADOW_API void gpuplan_shadow_pause(int pause) { unlooked += pause != 0 ? 1 : -1; }

}  // namespace gpuplan::shadow
