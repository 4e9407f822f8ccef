"""What the program runs for a model of Python's that is named on its command line: exports it into the user's cache, and writes
beside it what it was made of, so that the next question needs no Python.

    python -c '...' SPEC.yaml MODEL [--input SIZES ...] [--arg NAME=VALUE ...]

SPEC.yaml.sources has a line for each file: its size, when it was written (ns) and its path. Of an installed package that is
the file that its name imports, which an upgrade writes anew; of code of the user's, every file that was imported."""
from __future__ import annotations

import os
import sys
import sysconfig
from typing import Dict, List

from gpuplan.errors import GpuplanError, need_torch

OWN = os.path.dirname(os.path.abspath(__file__))


def main(arguments: List[str]) -> int:
    spec, words = arguments[0], arguments[1:]
    try:
        need_torch()
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    from gpuplan import command_line

    part = f"{spec}.{os.getpid()}"
    try:
        code = command_line.main([*words, "-o", part], called="gpuplan")
        if code == 0:
            os.replace(part, spec)
            write_sources(spec + ".sources", [spec])
        return code
    finally:
        if os.path.exists(part):
            os.remove(part)


def write_sources(sources: str, made: List[str]) -> None:
    part = f"{sources}.{os.getpid()}"
    with open(part, "w", encoding="utf-8") as out:
        for path in [*made, *made_of()]:
            known = os.stat(path)
            out.write(f"{known.st_size}\t{known.st_mtime_ns}\t{path}\n")
    os.replace(part, sources)


def made_of() -> List[str]:
    """The files of what this process has imported, and the configurations that it has read."""
    from gpuplan.named import FILES_READ

    installed = tuple({sysconfig.get_paths()[key] + os.sep for key in ("purelib", "platlib")})
    standard = tuple({sysconfig.get_paths()[key] + os.sep for key in ("stdlib", "platstdlib")})
    found: Dict[str, None] = dict.fromkeys(os.path.abspath(path) for path in FILES_READ)
    for name, module in list(sys.modules.items()):
        path = os.path.abspath(getattr(module, "__file__", None) or "")
        if path.startswith(installed) and not path.startswith(OWN + os.sep):
            top = getattr(sys.modules.get(name.partition(".")[0]), "__file__", None)
            path = os.path.abspath(top) if top else ""
        elif path.startswith(standard):
            continue
        if os.path.isfile(path) and "\n" not in path:
            found[path] = None
    return list(found)
