"""@pytest.mark.limit_gpu_memory("8 GiB", gpu="l4"): the test runs in a process of its own on a simulated GPU, with no GPU
there, and fails where the memory that its tensors take would be more. `pytest --gpuplan` prints what each such test took."""
from __future__ import annotations

import os
import sys
import time
from typing import Any, List, Optional, Tuple

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.plans import amount
from gpuplan.shadowed import Run, run_command

INSIDE = "GPUPLAN_INSIDE_TEST"  # set in the process that runs the test itself


def pytest_addoption(parser: Any) -> None:
    parser.getgroup("gpuplan").addoption("--gpuplan", action="store_true", help="print the GPU memory of tests that limit it")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "limit_gpu_memory(limit, gpu=None, **flags): runs the test under `gpuplan shadow` and fails it "
                            "where its peak of allocated GPU memory is more than the limit (\"8 GiB\"); flags are those of gpuplan shadow")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: Any, nextitem: Any) -> Optional[bool]:
    marker = item.get_closest_marker("limit_gpu_memory")
    if marker is None or os.environ.get(INSIDE):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    started = time.time()
    outcome, text, figures = _run(item, *marker.args, **marker.kwargs)
    ended = time.time()
    item.ihook.pytest_runtest_logreport(report=pytest.TestReport(
        item.nodeid, item.location, {name: 1 for name in item.keywords}, outcome, text, "call", duration=ended - started, start=started,
        stop=ended, user_properties=[("gpuplan", figures)] if figures else []))
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    if not config.getoption("--gpuplan"):
        return
    reports = [report for found in terminalreporter.stats.values() for report in found if hasattr(report, "user_properties")]
    rows = [(report.nodeid, *value) for report in reports for name, value in report.user_properties if name == "gpuplan"]
    if not rows:
        return
    terminalreporter.section("GPU memory")
    width = max(len(row[0]) for row in rows)
    for nodeid, gpu, peak, reserved, limit in rows:
        terminalreporter.line(f"{nodeid:{width}}  {gpu}  peak {amount(peak)}, reserved {amount(reserved)}, limit {limit}")


def _run(item: Any, limit: str, gpu: Optional[str] = None, **options: Any) -> Tuple[str, Any, Optional[Tuple[str, int, int, str]]]:
    """(outcome, what is said of a failure, the table's row)."""
    os.environ[INSIDE] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(item.config.rootpath),
               item.nodeid]
    try:
        run = run_command(command, gpu=gpu, max_peak=limit, **options)
    except GpuplanError as error:
        return "failed", str(error), None
    finally:
        del os.environ[INSIDE]
    figures = (run.to_dict()["gpu"], run.peak_bytes, run.reserved_bytes, str(limit))
    if run.over_max_peak:
        return "failed", f"the peak of allocated GPU memory is {amount(run.peak_bytes)}, more than {limit}:\n" + _lines(run), figures
    if run.exit_code != 0:
        return "failed", run.output, figures
    skipped = " skipped" in run.output and " passed" not in run.output
    return ("skipped", (item.nodeid, 0, run.output.strip().splitlines()[-1]), figures) if skipped else ("passed", None, figures)


def _lines(run: Run) -> str:
    rows: List[str] = []
    for line in run.by_line[:10]:
        where = f"{line['file']}:{line['line']}" if line["file"] else line["function"]  # "(backward pass)" is in no file
        rows.append(f"  {amount(line['bytes']):>9}  {where}  {(line.get('code') or '').strip()}".rstrip())
    return "\n".join(rows)
