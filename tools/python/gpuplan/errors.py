"""What the exporter refuses."""
from __future__ import annotations


class ExportError(Exception):
    """What cannot be exported, one line each."""


class Unsupported(Exception):
    """A call whose arguments no layer takes."""
