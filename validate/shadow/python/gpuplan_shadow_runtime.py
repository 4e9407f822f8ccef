"""The runtime's entry points for values."""

import ctypes


class Hooks:
    """The hooks of runtime/python_hooks.cpp. As a context: calls in it are not looked at.

    look(asked, entries, tensor): of tensors of that type something is known if `entries` has their storage's address.
    Asked are, in this order:
      call(function, name, args, kwargs)  calls a function of interest and returns its result
      begins_unknown(name, args)          whether a function that is of interest if its first argument is known is not
      of_unknown(name, result)            what such a function of unknown numbers has returned
      restore(), forget()                 launches of torch's functions, or of others, can have written over known values
    """

    def __init__(self):
        library = ctypes.PyDLL(None)
        self.look = library.gpuplan_shadow_look
        self.look.argtypes = [ctypes.py_object] * 3
        self._hook = library.gpuplan_shadow_hook
        self._hook.argtypes = [ctypes.py_object, ctypes.c_size_t, ctypes.c_char_p, ctypes.py_object] + [ctypes.c_int] * 2
        self._hook_subscripts = library.gpuplan_shadow_hook_subscripts
        self._hook_subscripts.argtypes = [ctypes.py_object, ctypes.c_size_t] + [ctypes.py_object] * 4
        self.pause = library.gpuplan_shadow_pause
        self.pause.restype = None
        self.pause.argtypes = [ctypes.c_int]

    def hook(self, function, offset, name, is_method, interest):
        return self._hook(function, offset, name.encode(), name, is_method, interest)

    def hook_subscripts(self, kind, offset, get_item, set_item):
        return self._hook_subscripts(kind, offset, get_item, "__getitem__", set_item, "__setitem__")

    def __enter__(self):
        self.pause(1)

    def __exit__(self, *error):
        self.pause(0)


class Runtime:
    """Its entry points for values (runtime/answers.h)."""

    def __init__(self):
        library = ctypes.CDLL(None)
        self.guesses = library.gpuplan_shadow_guesses
        self.guesses.restype = ctypes.c_int64
        self.guesses.argtypes = [ctypes.c_int]
        self.write = library.gpuplan_shadow_write
        self.write.restype = ctypes.c_uint64
        self.write.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        self.read = library.gpuplan_shadow_read
        self.read.restype = ctypes.c_int
        self.read.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
        self.forget = library.gpuplan_shadow_forget
        self.forget.restype = None
        self.forget.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self.holds = library.gpuplan_shadow_holds
        self.holds.restype = ctypes.c_int
        self.holds.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
        self.lost_writes = library.gpuplan_shadow_lost
        self.lost_writes.restype = ctypes.c_size_t
        self.lost_writes.argtypes = [ctypes.POINTER(ctypes.c_size_t), ctypes.c_size_t]
        self.addresses = (ctypes.c_size_t * 4096)()
        self.answer = library.gpuplan_shadow_answer
        self.answer.restype = ctypes.c_size_t
        self.answer.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t]

    def lost(self):
        """Where launches of this thread can have written over what we had put there, since the last call."""
        count = self.lost_writes(self.addresses, len(self.addresses))
        return self.addresses[:count] if count else ()

    def give(self, answers):
        self.answer((ctypes.c_int64 * len(answers))(*answers), len(answers))
