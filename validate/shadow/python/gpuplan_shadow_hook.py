"""The hook that `gpuplan shadow` loads beside a Python script. It changes nothing that the script computes or reads,
and reports what PyTorch's own statistics say, as JSON lines in SESSION/events.PID.jsonl. Nothing happens in a Python
that does not import torch; a process that imports it, but neither initialises CUDA nor steps an optimizer (a launcher,
a DataLoader's worker), writes nothing.

Events, each with "event":
  start    torch, cuda, python, argv, rank, world
  step     index, rank; devices: {"0": {peak, live, segments, retries, launches}}. After each Optimizer.step(), whatever
           called it; peak: since the step before; segments: now; retries: so far; launches: of the process since the
           step before, under its first device.
  peak     device, allocated, requested, reserved, when, categories, lines, seconds. What was alive at the highest
           allocated bytes so far; a later one replaces it. seconds: what finding it out took.
  oom      device, wanted, free, allocated, reserved, message. Also where the script catches the error.
  unknown  what. Operators whose result's size depends on values are the runtime's to report
           (runtime/data_dependent.h): it sees their kernels, where Python would have to replace functions of torch,
           which torch.compile notices. What .item() or `if tensor:` reads is zero; nobody can tell what hangs on it.
  compiling  graph. torch.compile begins the process's graph of that number.
  compiled   graphs, breaks: [{"file", "line", "reason", "times"}], once, before the end.
  decided    reads: [{"file", "line", "function", "times", "drawn"}]. What the host read without anybody knowing it, or
           drawn (1); by line, once, before the end. File and function empty: where Python was not asked.
  choice     kind (operator, configuration), name, taken, of, workspace (bytes): an autotuner's, made without a clock.
  engine   name, and part, bytes or line. What a serving engine has measured of itself, or said.
  problem  code, text. code: the exit code that it calls for, 0 where the script goes on.
  end      reason (exit, steps, until-stable, exception), rank, world, exception, seconds;
           devices: {"0": {peak, live, segments, retries, ooms, graphs}}, segments: the most there were; graphs: bytes
           that the pools of CUDA graphs have reserved and not allocated
where peak and live are {"allocated", "requested", "reserved"} in bytes. Only devices that the process uses are named.
"""

import atexit
import os
import sys
import time
import weakref

import gpuplan_shadow_autotune
import gpuplan_shadow_compile
import gpuplan_shadow_engine
import gpuplan_shadow_generated
import gpuplan_shadow_generation
import gpuplan_shadow_learn
import gpuplan_shadow_values
import gpuplan_shadow_vllm
from gpuplan_shadow_alive import Places, pool_bytes
from gpuplan_shadow_figures import Figures, read
from gpuplan_shadow_history import History, snapshot, watch_recording
from gpuplan_shadow_imports import after_import
from gpuplan_shadow_peak import PeakReports
from gpuplan_shadow_process import (
    Launches,
    before_leaving,
    check_of_values,
    ended_by_exception,
    rank_and_world,
    size_text,
    still_ends_by_interrupt,
    without_cuda,
)
from gpuplan_shadow_runtime import Runtime
from gpuplan_shadow_session import Session, first_line, guarded, say
from gpuplan_shadow_statistics import watch_statistics
from gpuplan_shadow_steps import StopRule
from gpuplan_shadow_toolchain import what_is_missing


def install():
    """Called by sitecustomize, before the script. Waits for torch."""
    session = Session(os.environ["GPUPLAN_SHADOW_SESSION"])
    after_import("torch", lambda torch: _torch_is_here(session, torch))
    after_import("jax._src.hardware_utils", _gpu_is_visible)


def _gpu_is_visible(module):
    """JAX looks for the driver's files in /dev before it asks the driver."""
    module.has_visible_nvidia_gpu = lambda: True


def _torch_is_here(session, torch):
    if session.pid != os.getpid():
        session.fork()  # a child that imports torch, of a parent that did not
    reason = without_cuda(torch)
    if reason is not None:
        _give_up(session, reason)
    guarded(session, "the Python hook did not start")(lambda: Hook(session, torch).install())()
    if session.settings.peers != 0:
        guarded(session, "the help for distributed scripts did not start")(_help_distributed)(session.settings)


def _help_distributed(settings):
    import gpuplan_shadow_world

    gpuplan_shadow_world.install(settings)


def _give_up(session, text):
    """The script cannot run here: one line, and exit code 4."""
    session.problem(text, 4)
    say(text)
    raise SystemExit(4)


class Hook:
    """Everything about one process."""

    def __init__(self, session, torch):
        self.session = session
        self.torch = torch
        self.places = Places(
            os.path.dirname(torch.__file__) + os.sep,
            os.path.dirname(os.__file__) + os.sep,
            gpuplan_shadow_generated.source_frames,
        )
        # As they are before the script's calls are watched.
        self.own_functions = (torch._C._cuda_memoryStats, torch._C._cuda_resetPeakMemoryStats)
        self._begin_process()

    def _begin_process(self):
        settings = self.session.settings
        self.launches = Launches()
        self.figures = Figures(*self.own_functions)
        self.history = History(self.torch, self.session)
        self.peaks = PeakReports(self.torch, self.session, self.figures, self.history, self.places)
        self.look_at_peak = guarded(self.session, "what was alive at the peak")(self.peaks.look)
        if settings.learn:  # the record is of the whole run: to go through it at each step takes long
            self.look_at_peak = lambda *args: None
            self.learning = gpuplan_shadow_learn.Learning(self.session, self.figures, self.history, self.places)
        self.compilations = gpuplan_shadow_compile.Compilations(self.session.write)
        self.stop_rule = StopRule(settings.steps, settings.until_stable)
        self.values = None
        self.optimizers = {}  # id -> weak reference
        self.steps = 0
        self.reason = None  # why the script is being ended
        self.began = False
        self.ended = False
        self.failed_allocation = False  # the snapshot shows an out-of-memory error

    # --- what it hangs on

    def install(self):
        torch = self.torch
        safe = guarded(self.session, "the Python hook")
        if self.session.settings.no_compile:
            gpuplan_shadow_compile.leave_out(torch)
        else:
            gpuplan_shadow_compile.watch(after_import, safe, lambda: self.compilations)
            gpuplan_shadow_generated.keep_notes(after_import, safe)
            gpuplan_shadow_autotune.take_first(after_import, self.session, safe)
        settings = self.session.settings
        if settings.values > 0 and hasattr(torch, "compile"):  # 2.0, which has hooks of every optimizer's step
            start = safe(gpuplan_shadow_values.install)
            self.values = start(torch, after_import, settings, self.session.unknown)
        gpuplan_shadow_generation.end_at_longest_length(after_import, self.session)
        gpuplan_shadow_engine.watch(after_import, self.session, safe)
        gpuplan_shadow_vllm.watch(after_import, self.session, Runtime, torch, safe)
        torch.cuda._lazy_call(safe(self._cuda_begins))
        optimizer = sys.modules["torch.optim.optimizer"]
        optimizer.register_optimizer_step_post_hook(self._after_step)
        watch_statistics(torch, lambda: self.figures, safe)
        watch_recording(torch, lambda: self.history, safe)
        if self.session.settings.learn:
            gpuplan_shadow_learn.watch(torch, lambda: self.learning, safe)
        os.register_at_fork(after_in_child=self._forked)
        # A child of multiprocessing, and others, leave without atexit; exec() may fail, after which the script goes on.
        before_leaving(("_exit",), safe(self._end))
        before_leaving(("execv", "execve"), safe(lambda: self._end(goes_on=True)))

    def _forked(self):
        """The child is silent until it uses CUDA itself, which it can where its parent had not begun to."""
        self.session.fork()
        self._begin_process()

    def _begin(self):
        if self.began:
            return
        self.began = True
        rank, world = rank_and_world(self.session.settings)
        version = self.torch.version
        self.session.write(
            {
                "event": "start",
                "torch": str(self.torch.__version__),
                "cuda": version.cuda,
                "python": sys.version.split()[0],
                "argv": list(getattr(sys, "argv", [])),
                "rank": rank,
                "world": world,
            }
        )
        atexit.register(guarded(self.session, "the end of the script")(self._end))

    def _cuda_begins(self):
        """Called by PyTorch as it initialises CUDA."""
        self._begin()
        observe = guarded(self.session, "an out-of-memory error")(self._out_of_memory)
        for begin in (self.history.begin, lambda: self.torch._C._cuda_attach_out_of_memory_observer(observe)):
            try:
                begin()
            except RuntimeError as error:  # an allocator other than PyTorch's own, which has neither
                text = first_line(error).partition(". ")[0]
                self.session.unknown("what was alive at the peak, or at an error: " + text)

    def _used_devices(self):
        """{device: the allocator's figures} of the devices on which this process has reserved memory."""
        if not self.torch.cuda.is_initialized():
            return {}
        found = {device: self.figures.look(device) for device in range(self.torch._C._cuda_getDeviceCount())}
        return {device: stats for device, stats in found.items() if self.figures.devices[device].run["reserved"] > 0}

    def _graph_pools(self, device):
        try:
            return pool_bytes(snapshot(self.torch), device)
        except RuntimeError:
            return 0  # an allocator other than PyTorch's own

    # --- steps

    def _after_step(self, optimizer, args, kwargs):
        """Optimizer.step() has returned, or an optimizer's step within another's."""
        if _within_another_step(sys._getframe(1)):
            return
        stop = guarded(self.session, "an optimizer step")(self._step)(optimizer)
        if stop is not None or self.reason is not None:  # a second attempt where something caught the first
            self.reason = self.reason or stop
            raise SystemExit(0)

    def _step(self, optimizer):
        self._begin()
        self.steps += 1
        key = id(optimizer)
        if key not in self.optimizers or self.optimizers[key]() is not optimizer:
            self.optimizers[key] = weakref.ref(optimizer)
        figures = {}
        for device, stats in self._used_devices().items():
            self.look_at_peak(device, "step %d" % self.steps, self._live_optimizers())
            figures[str(device)] = self.figures.end_step(device, stats)
        launches = self.launches.since_last()
        for device, step in figures.items():
            step["launches"] = launches
            launches = 0
        rank, _ = rank_and_world(self.session.settings)
        self.session.write({"event": "step", "index": self.steps, "rank": rank, "devices": figures})
        self._settings_that_measure()
        self.peaks.begin_step(optimizer, key)
        if self.session.settings.learn:
            self.learning.after_step(self.steps)
        return self.stop_rule.after(self.steps, key, figures)

    def _live_optimizers(self):
        self.optimizers = {key: found for key, found in self.optimizers.items() if found() is not None}
        return [found() for found in self.optimizers.values()]

    def _settings_that_measure(self):
        if self.torch._C._get_cudnn_benchmark():
            self.session.unknown(
                "torch.backends.cudnn.benchmark is on: cuDNN would time its engines on the GPU, and the fastest one's "
                "workspace can be another than the one taken here"
            )

    # --- out of memory

    def _out_of_memory(self, device, wanted, total, free):
        stats = self.figures.look(device)
        live = read(stats, "current")
        self.session.write(
            {
                "event": "oom",
                "device": device,
                "wanted": wanted,
                "free": free,
                "allocated": live["allocated"],
                "reserved": live["reserved"],
                "message": "CUDA out of memory. Tried to allocate %s." % size_text(wanted),
            }
        )
        self.look_at_peak(device, "the out-of-memory error", self._live_optimizers())
        self.failed_allocation = True
        self._dump()

    def _dump(self):
        """The snapshot for PyTorch's memory_viz, which the host moves to its place."""
        if not self.session.settings.snapshot:
            return
        rank, world = rank_and_world(self.session.settings)
        several = world > 1 and self.session.settings.peers != 2
        path = os.path.join(self.session.directory, "snapshot" + (".rank%d" % rank if several else ""))
        draft = "draft.%d" % os.getpid()
        self.torch.cuda.memory._dump_snapshot(os.path.join(self.session.directory, draft))
        os.replace(os.path.join(self.session.directory, draft), path)

    # --- the end

    def _end(self, goes_on=False):
        if self.ended or not self.began or os.getpid() != self.session.pid:
            return  # a forked child inherits what its parent has registered
        self.ended = not goes_on
        error = ended_by_exception() if self.reason is None else None
        when = "after the last step" if self.steps else "the script"
        devices = {}
        for device in self._used_devices():
            self.look_at_peak(device, when, self._live_optimizers())
            devices[str(device)] = self.figures.whole_run(device)
            devices[str(device)]["graphs"] = self._graph_pools(device)
        self._settings_that_measure()
        if self.session.settings.learn:
            guarded(self.session, "--learn")(self.learning.write)(devices)
        for event in (self.compilations.event(), self.values.event() if self.values is not None else None):
            if event is not None:
                self.session.write(event)
        rank, world = rank_and_world(self.session.settings)
        event = {"event": "end", "reason": self.reason or ("exit" if error is None else "exception")}
        event.update({"rank": rank, "world": world, "devices": devices})
        event["seconds"] = round(time.monotonic() - self.session.started, 3)
        if error is not None:
            event["exception"] = "%s: %s" % (type(error).__name__, first_line(error))
            if check_of_values(error) is not None:
                self.session.unknown(check_of_values(error))
            if what_is_missing(error) is not None:
                self.session.problem(what_is_missing(error), 4)
        self.session.write(event)
        if devices and not (error is not None and self.failed_allocation):
            guarded(self.session, "--snapshot")(self._dump)()
        if isinstance(error, KeyboardInterrupt):
            still_ends_by_interrupt()


def _within_another_step(caller):
    """Whether the step that calls us is part of another optimizer's: torch wraps both in the same code."""
    frame = caller.f_back
    while frame is not None:
        if frame.f_code is caller.f_code:
            return True
        frame = frame.f_back
    return False
