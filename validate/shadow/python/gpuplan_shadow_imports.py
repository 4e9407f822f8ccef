"""Calls a function once a module has been imported. A finder at the front of sys.meta_path that knows no module
itself: it asks the others, and where the name is one that somebody waits for, runs the function after the module's
own code. It costs a dictionary look-up an import, and leaves once nobody waits."""

import sys


class _Waiting:
    def __init__(self):
        self.callbacks = {}
        self.searching = set()

    def find_spec(self, name, path=None, target=None):
        if name not in self.callbacks or name in self.searching:
            return None
        self.searching.add(name)
        try:
            spec = _ask_the_others(self, name, path, target)
        finally:
            self.searching.discard(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            _run_after(spec.loader, lambda module: self.done(name, module))
        return spec

    def done(self, name, module):
        callback = self.callbacks.pop(name, None)
        if not self.callbacks and self in sys.meta_path:
            sys.meta_path.remove(self)
        if callback is not None:
            callback(module)


def _ask_the_others(this, name, path, target):
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        if finder is this or find is None:
            continue
        spec = find(name, path, target)
        if spec is not None:
            return spec
    return None


def _run_after(loader, callback):
    execute = loader.exec_module

    def exec_module(module):
        try:
            del loader.exec_module  # the loader is what it was, also for whoever asks the module for it
        except AttributeError:
            pass
        execute(module)
        callback(module)

    try:
        loader.exec_module = exec_module
    except AttributeError:
        pass  # a loader that takes no attributes: the module loads without us


_waiting = _Waiting()


def after_import(name, callback):
    """Calls callback(module) right after `name` has been imported; at once where it has been already."""
    module = sys.modules.get(name)
    if module is not None:
        callback(module)
        return
    _waiting.callbacks[name] = callback
    if _waiting not in sys.meta_path:
        sys.meta_path.insert(0, _waiting)
