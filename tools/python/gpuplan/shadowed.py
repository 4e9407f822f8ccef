"""Python code on a simulated GPU, in a process of its own: `gpuplan shadow`."""
from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence

from gpuplan.errors import GpuplanError
from gpuplan.plans import amount
from gpuplan.program import error_of, flags, program

ENDED_EARLY = 1  # the run went out of memory, or over max_peak


class Run:
    """What a run took. `to_dict()` has everything that `gpuplan shadow --format json` writes."""

    def __init__(self, report: Dict[str, Any], output: str) -> None:
        self._report = report
        self.output = output  # what it printed, errors included

    @property
    def peak_bytes(self) -> int:
        """torch.cuda.max_memory_allocated() of the run."""
        return self._report["peak"]["allocated_bytes"] or 0

    @property
    def reserved_bytes(self) -> int:
        return self._report["peak"]["reserved_bytes"] or 0

    @property
    def device_bytes(self) -> int:
        """What nvidia-smi would show."""
        return self._report["peak"]["device_bytes"] or 0

    @property
    def exit_code(self) -> int:
        return self._report["exit_code"]

    @property
    def out_of_memory(self) -> bool:
        return bool(self._report["out_of_memory"])

    @property
    def over_max_peak(self) -> bool:
        return bool(self._report["over_max_peak"])

    @property
    def by_line(self) -> List[Dict[str, Any]]:
        """What was alive at the peak by the line that allocated it: file, line, function, code, bytes, blocks."""
        return (self._report["alive"] or {}).get("lines", [])

    def to_dict(self) -> Dict[str, Any]:
        return self._report

    def __repr__(self) -> str:
        return f"<gpuplan.Run on {self._report['gpu']}: peak {amount(self.peak_bytes)}, reserved {amount(self.reserved_bytes)}>"


def run_command(command: Sequence[str], gpu: Optional[str] = None, **options: Any) -> Run:
    """The command under `gpuplan shadow`; options are its flags, with underscores. Raises GpuplanError where it could not be
    started; how it ended is the Run's to say."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        words = [program(), "shadow", *flags({"gpu": gpu, **options}), "--output", report, "--", *command]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(report):
            raise error_of(done.stdout, done.returncode)
        with open(report, encoding="utf-8") as file:
            return Run(json.load(file), done.stdout)


def shadow(function: Callable[..., Any], *arguments: Any, gpu: Optional[str] = None, **options: Any) -> Run:
    """Calls function(*arguments) in a new process that sees the GPU named, though there is none: CUDA may be initialised in
    this one. As with multiprocessing, the function is one that the new process can import, so none defined inside another, and
    a script guards its own start with `if __name__ == "__main__":`. Raises GpuplanError where the function does."""
    from multiprocessing import spawn

    try:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "call")
            with open(path, "wb") as file:
                prepared = spawn.get_preparation_data("gpuplan")
                prepared.pop("authkey", None)  # of pipes between the two, of which there is none
                pickle.dump(prepared, file)
                pickle.dump((function, arguments), file)
            run = run_command([sys.executable, "-m", "gpuplan.call", path], gpu=gpu, **options)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise GpuplanError(f"{function!r} or its arguments cannot be given to another process: {error}",
                           help="define it at the top of a module", exit_code=2) from error
    if run.exit_code != 0 and not run.out_of_memory:
        raise GpuplanError(f"{getattr(function, '__name__', function)}() ended with exit code {run.exit_code}", text=run.output, exit_code=3)
    return run
