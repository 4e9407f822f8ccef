// A `__torch_function__` for the mode of python/gpuplan_shadow_values.py, which every call of a function of torch goes
// through: those of no interest go on from here, without a Python frame of ours. Python's functions are looked up in
// the process, so that one library serves every version; those used are in its stable ABI.
#include <dlfcn.h>

#include <cstddef>

#include "validate/shadow/runtime/runtime.h"
#include "validate/shadow/runtime/written.h"

namespace gpuplan::shadow {
namespace {

struct Object;  // a PyObject

struct Method {  // PyMethodDef
  const char* name;
  Object* (*function)(Object* self, Object* arguments);
  int flags;
  const char* documentation;
};

struct Python {
  Object* (*make_function)(Method*, Object* self, Object* module);
  Object* (*tuple_item)(Object*, std::ptrdiff_t);
  std::ptrdiff_t (*tuple_size)(Object*);
  Object* (*dictionary_item)(Object*, Object* key);
  Object* (*call)(Object* callable, Object* arguments, Object* keywords);
  Object* (*call_with)(Object* callable, ...);
  Object* (*type_of)(Object*);
  void (*keep)(Object*);
  void (*release)(Object*);
  void (*clear_error)();
  Object *none, *no;

  bool complete() const {
    return make_function && tuple_item && tuple_size && dictionary_item && call && call_with && type_of && keep &&
           release && clear_error && none && no;
  }
};

template <typename F>
void look_up(F& function, const char* name) {
  function = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, name));
}

const Python& python() {
  static const Python found = [] {
    Python p{};
    look_up(p.make_function, "PyCFunction_NewEx");
    look_up(p.tuple_item, "PyTuple_GetItem");
    look_up(p.tuple_size, "PyTuple_Size");
    look_up(p.dictionary_item, "PyDict_GetItemWithError");
    look_up(p.call, "PyObject_Call");
    look_up(p.call_with, "PyObject_CallFunctionObjArgs");
    look_up(p.type_of, "PyObject_Type");
    look_up(p.keep, "Py_IncRef");
    look_up(p.release, "Py_DecRef");
    look_up(p.clear_error, "PyErr_Clear");
    look_up(p.none, "_Py_NoneStruct");
    look_up(p.no, "_Py_FalseStruct");
    return p;
  }();
  return found;
}

// What the process's one mode goes by. Its method's `self` has to be the mode, or torch takes it for a class's.
struct Mode {
  Object* names = nullptr;    // a dictionary: functions of no interest have None; of those not torch's own, False
  Object* getter = nullptr;   // the type of an attribute's getter
  Object* others = nullptr;   // called with function, arguments and keywords of all else
  Object* restore = nullptr;  // called where launches of torch's functions can have written over known values
  Object* forget = nullptr;   // called where other launches can have
};
Mode& the_mode() {
  static Mode mode;
  return mode;
}

// Torch's functions of no interest write over nothing that is known: their kernels only seemed to.
Object* restored(Object* result) {
  if (result == nullptr || !has_lost_writes()) return result;
  Object* const done = python().call_with(the_mode().restore, nullptr);
  python().release(done != nullptr ? done : result);
  return done != nullptr ? result : nullptr;
}

// __torch_function__(function, types, arguments, keywords=None).
Object* handle(Object* /*self*/, Object* arguments) {
  const Python& p = python();
  const Mode& mode = the_mode();
  if (has_lost_writes()) {
    Object* const done = p.call_with(mode.forget, nullptr);
    if (done == nullptr) return nullptr;
    p.release(done);
  }
  Object* const function = p.tuple_item(arguments, 0);
  Object* const given = p.tuple_item(arguments, 2);
  if (function == nullptr || given == nullptr) return nullptr;  // with Python's error set
  Object* keywords = p.tuple_size(arguments) > 3 ? p.tuple_item(arguments, 3) : nullptr;
  if (keywords == p.none) keywords = nullptr;
  Object* const name = p.dictionary_item(mode.names, function);
  if (name == p.none) return restored(p.call(function, given, keywords));
  if (name == p.no) return p.call(function, given, keywords);
  if (name == nullptr) {
    p.clear_error();  // of a function that has no hash
    Object* const type = p.type_of(function);
    const bool is_getter = type == mode.getter;
    p.release(type);
    if (is_getter) return p.call(function, given, keywords);
  }
  return restored(p.call_with(mode.others, function, given, keywords != nullptr ? keywords : p.none, nullptr));
}

}  // namespace

/// The method of the mode `self`, a new reference; null where this Python lacks something, without an error. The others
/// are kept for ever.
SHADOW_API Object* gpuplan_shadow_handler(Object* self, Object* names, Object* getter, Object* others, Object* restore,
                                          Object* forget) {
  constexpr int kPositional = 1;  // METH_VARARGS
  static Method method = {"__torch_function__", handle, kPositional, nullptr};
  if (!python().complete()) return nullptr;
  for (Object* const kept : {names, getter, others, restore, forget}) python().keep(kept);
  the_mode() = {names, getter, others, restore, forget};
  return python().make_function(&method, self, nullptr);
}

}  // namespace gpuplan::shadow
