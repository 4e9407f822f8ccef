"""The runtime's entry points for values."""

import ctypes


def make_handler(mode, names, getter, others, restore, forget):
    """The handler of runtime/python_handler.cpp; None where there is none for this Python."""
    library = ctypes.PyDLL(None)
    make = library.gpuplan_shadow_handler
    make.restype = ctypes.c_void_p
    make.argtypes = [ctypes.py_object] * 6
    address = make(mode, names, getter, others, restore, forget)
    if not address:
        return None
    handler = ctypes.cast(address, ctypes.py_object).value
    library.Py_DecRef(ctypes.py_object(handler))  # the reference that came with the address
    return handler


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
