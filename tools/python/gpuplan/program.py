"""The gpuplan program that this package runs: the one inside the installed wheel, or a checkout's own build."""
from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, List, NoReturn, Sequence

from gpuplan.errors import GpuplanError

HERE = Path(__file__).resolve().parent


def program() -> str:
    """Its path: $GPUPLAN, the wheel's, or build/gpuplan of the checkout that this package lies in."""
    named = os.environ.get("GPUPLAN")
    places = [Path(named)] if named else [HERE / "bin" / "gpuplan", HERE.parents[2] / "build" / "gpuplan"]
    for place in places:
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    raise GpuplanError(
        f"$GPUPLAN is {named}, which is no program" if named else f"this installation has no gpuplan program ({places[0]})",
        help="pip install a wheel for this platform (Linux on x86_64), or build a checkout with tools/run")


def main() -> NoReturn:
    """The command `gpuplan` of the wheel: the program itself, in this process, under the name that it was started by."""
    try:
        path = program()
        from gpuplan import cuda_module

        if cuda_module.is_missing(sys.argv[1:]):
            cuda_module.build()
        try:
            os.execv(path, [sys.argv[0], *sys.argv[1:]])
        except OSError as error:
            raise _unable(path, error) from None
    except GpuplanError as error:
        text = str(error)
        sys.stderr.write((text if text.startswith("error: ") else f"error: {text}") + "\n")
        sys.exit(error.exit_code)


def run(words: Sequence[str]) -> str:
    """What the program prints. Exit code 1 is an answer too: the step does not fit."""
    path = program()
    try:
        done = subprocess.run([path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise _unable(path, error) from None
    if done.returncode not in (0, 1):
        raise error_of(done.stderr, done.returncode)
    return done.stdout


def _unable(path: str, error: OSError) -> GpuplanError:
    """A wheel that was unpacked on a machine that it is not for: pip would have refused its tag."""
    libc = " ".join(platform.libc_ver()).strip() or "no glibc"
    return GpuplanError(f"{path} cannot be started on this machine ({platform.system()}, {platform.machine()}, {libc}): {error.strerror}",
                        help="the wheel is for Linux on x86_64 with glibc, not musl; elsewhere build a checkout: tools/run")


def run_json(words: Sequence[str]) -> Any:
    return json.loads(run([*words, "--format", "json"]))


def flags(options: "dict[str, Any]") -> List[str]:
    """{"weight_decay": True, "seq": 128, "set": {"classes": 10}} as flags; None and False leave one out."""
    words: List[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(flag)
        elif name == "set":
            for variable, text in value.items():
                words += ["--set", f"{variable}={text}"]
        elif name in ("clip_grad_norm", "weight_decay"):  # which stand without a value, too
            words.append(f"{flag}={value}")
        else:
            words += [flag, str(value)]
    return words


def error_of(text: str, code: int) -> GpuplanError:
    """The program's error of "error: ...", "  --> FILE:LINE:COLUMN" and "  help: ..."."""
    message = re.search(r"^error: (.*)$", text, re.M)
    place = re.search(r"^  --> (.*):(\d+):(\d+)$", text, re.M)
    advice = re.search(r"^  help: (.*)$", text, re.M)
    file, line, column = (place[1], int(place[2]), int(place[3])) if place else (None, None, None)
    at = text.find("error: ")
    return GpuplanError(message[1] if message else text.strip() or f"the program ended with exit code {code}", file=file, line=line,
                        column=column, help=advice[1] if advice else None, text=text[max(at, 0):].rstrip(), exit_code=code)
