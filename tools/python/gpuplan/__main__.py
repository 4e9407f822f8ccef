"""python3 -m gpuplan WORDS is the command `gpuplan WORDS`, and python3 -m gpuplan export exports a model; so does
python3 tools/python/gpuplan, by its path."""
from __future__ import annotations

import os
import sys

if not __package__:  # run by its path, which put this folder on sys.path: its modules would hide the user's
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [os.path.dirname(folder)] + [p for p in sys.path if os.path.abspath(p) != folder]

if __name__ == "__main__":
    if __package__ and sys.argv[1:2] != ["export"]:
        from gpuplan.program import main as program

        program()
    from gpuplan.errors import GpuplanError, need_torch

    try:
        need_torch()
    except GpuplanError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    from gpuplan.command_line import main

    sys.exit(main(sys.argv[2:], "python3 -m gpuplan export") if __package__ else main(called=f"python3 {sys.argv[0]}"))
