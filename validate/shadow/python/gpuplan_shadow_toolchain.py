"""What a compiled program needs of this machine and did not find, told by the error that ended the script."""

import os
import re

_HOW = "Debian, Ubuntu: apt-get install %s"

# Text of an error (triton/runtime/build.py and errors.py, torch/_inductor/exc.py) -> what is missing.
_MISSING = (
    ("Failed to find C compiler", "Triton needs a C compiler, and there is none (%s)" % _HOW % "gcc"),
    ("Failed to find C++ compiler", "Triton needs a C++ compiler, and there is none (%s)" % _HOW % "g++"),
    ("No working C++ compiler found", "Inductor needs a C++ compiler, and there is none (%s)" % _HOW % "g++"),
    ("Cannot find a working triton installation", "torch.compile needs Triton: pip install triton"),
    ("Cannot find ptxas", "Triton found no ptxas; its wheel brings one: pip install --force-reinstall triton"),
    ("PTXAS error", "Triton's ptxas failed; its message stands in the error above"),
)


def what_is_missing(error):
    """One line on what to install or mend; None where the error comes of something else."""
    text = str(error)
    for part, missing in _MISSING:
        if part in text:
            return "torch.compile: " + missing
    # What builds Triton's launcher: ['/usr/bin/gcc', '.../driver.c', ..., '-I/usr/include/python3.11'].
    if "CalledProcessError" in type(error).__name__ + text and re.search(r"triton[^']*\.c'", text):
        headers = re.findall(r"'-I([^']*/python[\d.]+\w*)'", text)
        if headers and not os.path.exists(os.path.join(headers[-1], "Python.h")):
            return "torch.compile: Triton needs Python's headers, and there is no %s/Python.h (%s)" % (
                headers[-1],
                _HOW % "python3-dev",
            )
        return "torch.compile: the C compiler that builds Triton's launcher failed; its message stands above"
    return None
