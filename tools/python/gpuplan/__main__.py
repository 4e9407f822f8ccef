"""The command line: python3 tools/python/gpuplan, or python3 -m gpuplan with the package's parent folder on the path."""
from __future__ import annotations

import os
import sys

if not __package__:  # run by its path, which put this folder on sys.path: its modules would hide the user's
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [os.path.dirname(folder)] + [p for p in sys.path if os.path.abspath(p) != folder]

from gpuplan.command_line import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(called="python3 -m gpuplan" if __package__ else f"python3 {sys.argv[0]}"))
