"""Which line of the source a line of Inductor's generated code stands for. Inductor notes it as it writes a graph, but
for the parts into which it cuts one around what CUDA graphs cannot hold (`partition_0`); here their notes are kept."""

import functools
import sys


def source_frames(frame):
    """The frames of the source, innermost first, that a frame of Inductor's generated code stands for; None for a frame
    of any other file, [] where Inductor did not note it."""
    code = getattr(sys.modules.get("torch._inductor.codecache"), "PyCodeCache", None)
    if code is None or frame["filename"] not in getattr(code, "linemaps", ()):
        return None
    try:
        return code.stack_frames_for_code(frame["filename"], frame["line"]) or []
    except Exception:
        return []


def keep_notes(after_import, safe):
    parts = []  # (text, [(line of the text, stack of the source)]) since the last file was loaded
    add = safe(lambda code: parts.append((code.value, [(at, node.stack_trace) for at, node in code.line_map])))
    merge = safe(_merged)

    def writer(module):
        original = module.PythonWrapperCodegen.define_subgraph_launcher_fn

        @functools.wraps(original)
        def define(self, name, subgraph_code, *args, **kwargs):
            add(subgraph_code)
            return original(self, name, subgraph_code, *args, **kwargs)

        module.PythonWrapperCodegen.define_subgraph_launcher_fn = define

    def loader(module):
        original = module.PyCodeCache.load_by_key_path.__func__

        @functools.wraps(original)
        def load(cls, key, path, linemap=None, *args, **kwargs):
            if parts and not linemap:
                linemap = merge(path, parts) or linemap
            parts.clear()
            return original(cls, key, path, linemap, *args, **kwargs)

        module.PyCodeCache.load_by_key_path = classmethod(load)

    after_import("torch._inductor.codegen.wrapper", safe(writer))
    after_import("torch._inductor.codecache", safe(loader))


def _merged(path, parts):
    """[(line of the file, stack of the source)] of the parts that the file contains as they were written."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    found = []
    for value, notes in parts:
        at = text.find(value.strip("\n"))
        if at >= 0:
            first = text.count("\n", 0, at) - (len(value) - len(value.lstrip("\n")))
            found += [(first + line, stack) for line, stack in notes]
    return sorted(found, key=lambda note: note[0])
