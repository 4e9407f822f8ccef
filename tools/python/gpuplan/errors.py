"""What is refused: models that cannot be exported, and what the program says of its input."""
from __future__ import annotations

import importlib.util
import sys
from typing import Optional


class GpuplanError(Exception):
    """Bad input, or an installation that lacks something. str() is what the program prints, with the line of the file, a
    caret and what to do.

    file, line, column: where, 1-based; None where it is nowhere. help: what to do, or None. exit_code: the program's
    (2 a wrong flag, 3 a wrong file, 4 something missing on this machine)."""

    def __init__(self, message: str, *, file: Optional[str] = None, line: Optional[int] = None, column: Optional[int] = None,
                 help: Optional[str] = None, text: Optional[str] = None, exit_code: int = 4) -> None:
        super().__init__(text if text else message + (f"\n  help: {help}" if help else ""))
        self.message, self.file, self.line, self.column = message, file, line, column
        self.help, self.exit_code = help, exit_code


class ExportError(GpuplanError):
    """What cannot be exported, one line each."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_code=3)


def need_torch(what: str = "a torch.nn.Module", otherwise: str = "a spec, config.json, ONNX file or zoo model needs none") -> None:
    """Raises GpuplanError where this Python has no torch."""
    if importlib.util.find_spec("torch") is None:
        raise GpuplanError(f"{what} needs torch, which {sys.executable} does not have", help=f"pip install torch; {otherwise}")


class Unsupported(Exception):
    """A call whose arguments no layer takes."""
