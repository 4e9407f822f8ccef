"""What the host read of the GPU although nobody knew it, by the line of the script: the report's `decided without values`."""

import os
import sys


class Decided:
    def __init__(self, torch):
        self.reads = {}  # (file, line, function) -> how often the host read what nobody knew
        self.draws = {}  # the same for what was drawn
        self.here = os.path.dirname(os.path.abspath(__file__)) + os.sep
        self.package = os.path.dirname(torch.__file__) + os.sep
        self.seen = 0  # reads that the runtime could not answer while a function of torch ran that Python called

    def unknown(self, name):
        self._note(self.reads, name)

    def drawn(self, name):
        self._note(self.draws, name)

    def event(self, guesses):
        """None where every read was answered. `guesses`: reads that the runtime could not answer, of the whole process."""
        elsewhere = guesses - self.seen
        reads = [
            {"file": file, "line": line, "function": function, "times": times, "drawn": drawn}
            for drawn, notes in ((0, self.reads), (1, self.draws))
            for (file, line, function), times in notes.items()
        ]
        if elsewhere > 0:
            reads.append({"file": "", "line": 0, "function": "", "times": elsewhere, "drawn": 0})
        return {"event": "decided", "reads": reads} if reads else None

    def _note(self, notes, name):
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith((self.here, self.package)):
            frame = frame.f_back
        key = (frame.f_code.co_filename, frame.f_lineno, name) if frame is not None else ("", 0, name)
        notes[key] = notes.get(key, 0) + 1
