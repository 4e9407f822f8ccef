"""The Python hook of `gpuplan shadow` without torch: python3 tests/shadow_hook/test_hook.py"""

import json
import logging
import os
import subprocess
import sys
import tempfile
import types
import unittest

HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "validate", "shadow", "python")
sys.path.insert(0, HOOK)

import gpuplan_shadow_alive as alive
import gpuplan_shadow_arguments as arguments
import gpuplan_shadow_autotune as autotune
import gpuplan_shadow_compile as compile
import gpuplan_shadow_engine as engine
import gpuplan_shadow_generated as generated
import gpuplan_shadow_history as history
import gpuplan_shadow_process as process
import gpuplan_shadow_value_rules as rules
from gpuplan_shadow_figures import Figures
from gpuplan_shadow_session import read_settings
from gpuplan_shadow_steps import StopRule
from gpuplan_shadow_toolchain import what_is_missing

MIB = 1 << 20


def frame(name, line=1, function="f"):
    return {"filename": name, "line": line, "name": function}


def entry(action, address, size, *frames):
    return {"action": action, "addr": address, "size": size, "frames": list(frames)}


def snapshot(blocks, entries):
    """`blocks`: (address, requested bytes, frames) that are alive now."""
    parts = [
        dict(address=at, size=alive.rounded(size), requested_size=size, state="active_allocated", frames=frames)
        for at, size, frames in blocks
    ]
    return {"segments": [{"device": 0, "address": 0, "blocks": parts}], "device_traces": [entries]}


class Alive(unittest.TestCase):
    def test_sizes_are_rounded_to_the_allocators_unit(self):
        self.assertEqual([alive.rounded(size) for size in (0, 1, 512, 513)], [512, 512, 512, 1024])

    def test_the_peak_is_between_an_allocation_and_a_free(self):
        a, b, c = frame("a.py"), frame("b.py"), frame("c.py")
        # There before the record: 0 (2 MiB, freed in it) and 100 (1 MiB, still there).
        entries = [
            entry("alloc", 200, 3 * MIB, b),
            entry("free_requested", 0, 2 * MIB, a),
            entry("alloc", 0, MIB, c),  # the same address, another block
            entry("free_requested", 200, 3 * MIB, b),
        ]
        taken = snapshot([(100, MIB, [a]), (0, MIB, [c])], entries)
        now = alive.blocks_now(taken, 0)
        self.assertEqual(alive.highest(alive.entries_of(taken, 0), now), (6 * MIB, 1))
        blocks = {block.address: block for block in alive.alive_at(entries, now, 1)}
        self.assertEqual({at: block.size for at, block in blocks.items()}, {0: 2 * MIB, 100: MIB, 200: 3 * MIB})
        self.assertEqual(blocks[0].frames, [a])
        self.assertEqual((blocks[0].born, blocks[0].freed), (None, 1))
        self.assertEqual((blocks[200].born, blocks[200].freed), (0, 3))
        self.assertEqual((blocks[100].born, blocks[100].freed), (None, None))

    def test_of_equal_peaks_the_first_counts(self):
        entries = [entry("alloc", 0, MIB), entry("free_requested", 0, MIB), entry("alloc", 0, MIB)]
        self.assertEqual(alive.highest(entries, alive.blocks_now(snapshot([(0, MIB, [])], entries), 0)), (MIB, 1))

    def test_without_a_record_now_is_the_peak(self):
        taken = snapshot([(0, 5 * MIB, [])], [])
        now = alive.blocks_now(taken, 0)
        self.assertEqual(alive.highest([], now), (5 * MIB, 0))
        self.assertEqual(len(alive.alive_at([], now, 0)), 1)

    def test_other_devices_and_pending_frees_do_not_count(self):
        taken = snapshot([(0, MIB, [])], [])
        taken["segments"][0]["blocks"].append({"address": 1, "size": MIB, "state": "active_pending_free", "frames": []})
        self.assertEqual(len(alive.blocks_now(taken, 0)), 1)
        self.assertEqual(alive.blocks_now(taken, 1), {})
        self.assertEqual(alive.entries_of(taken, 7), [])

    def test_the_last_allocations_of_a_longer_record(self):
        entries = [entry(action, at, 1) for at in (0, 1) for action in ("alloc", "free_requested")]
        self.assertEqual(alive.last_entries(entries, 1), entries[1:])
        self.assertEqual(alive.last_entries(entries, 0), entries[3:])
        self.assertEqual(alive.last_entries(entries, 9), entries)

    def test_categories_go_by_address_and_lifetime(self):
        entries = [
            entry("free_requested", 4096, 512),  # a gradient of the step before
            entry("alloc", 4096, 512),  # an activation in its place
            entry("alloc", 8192, 512),  # this step's gradient
        ]
        taken = snapshot([(0, 1024, []), (4096, 512, []), (8192, 512, [])], entries)
        now = alive.blocks_now(taken, 0)
        marks = [(0 + 512, "parameters"), (8192, "gradients"), (99999, "buffers")]  # the first is within its block
        made = lambda frames: False
        before = alive.categories(alive.alive_at(entries, now, 0), marks, [(4096, "gradients")], made)
        self.assertEqual(before, {"parameters": 1024, "gradients": 512})
        after = alive.categories(alive.alive_at(entries, now, 3), marks, [(4096, "gradients")], made)
        self.assertEqual(after, {"parameters": 1024, "activations and temporaries": 512, "gradients": 512})

    def test_lines_are_the_innermost_outside_torch(self):
        places = alive.Places("/p/site-packages/torch/", "/p/")
        inner = frame("/p/site-packages/torch/nn/functional.py", 3, "gelu")
        user = frame("/p/site-packages/model/gpt.py", 7, "forward")
        stack = [inner, frame("/p/functools.py"), user, frame("/srv/train.py", 9)]
        stack_line = ("/p/site-packages/model/gpt.py", 7, "forward")
        self.assertEqual(places.line(stack), stack_line)
        self.assertEqual(places.line([inner]), (inner["filename"], 3, "gelu"))
        self.assertEqual(places.line([frame(os.path.join(alive.HOOK, "gpuplan_shadow_compile.py")), user]), stack_line)
        self.assertEqual(places.line([]), ("", 0, alive.BACKWARD))
        hook = frame(os.path.join(alive.HOOK, "gpuplan_shadow_evaluate.py"))
        self.assertEqual(places.line([hook, inner, frame("<string>", 2)])[:2], ("<string>", 2))  # python -c
        self.assertEqual(places.line([hook, inner]), (inner["filename"], 3, "gelu"))
        blocks = [alive.Block(0, 512, stack), alive.Block(1, 1024, stack), alive.Block(2, 512, [])]
        found = alive.lines(blocks, places)
        self.assertEqual([(line["bytes"], line["blocks"]) for line in found], [(1536, 2), (512, 1)])
        self.assertEqual(found[0]["inner"], "/p/site-packages/torch/nn/functional.py:3 gelu")
        self.assertEqual(len(alive.lines(blocks, places, most=1)), 1)

    def test_generated_code_stands_for_the_source(self):
        made, source = frame("/tmp/inductor/ab/cab.py", 20, "call"), frame("/srv/model.py", 7, "forward")
        sources = {20: [frame("/t/torch/nn/functional.py", 3, "gelu"), source], 30: []}
        generated = lambda frame: sources[frame["line"]] if "/inductor/" in frame["filename"] else None
        places = alive.Places("/t/torch/", "/p/", generated)
        caller = frame("/srv/train.py", 9, "step")
        self.assertEqual(places.line([made, caller]), ("/srv/model.py", 7, "forward"))
        unknown = frame("/tmp/inductor/ab/cab.py", 30, "call")
        self.assertEqual(places.line([unknown, caller]), ("/srv/train.py", 9, "step"))
        self.assertEqual(places.line([unknown]), ("", 0, alive.BACKWARD))

    def test_pools_of_graphs(self):
        segments = [
            {"device": 0, "total_size": 8, "allocated_size": 3, "segment_pool_id": (0, 1)},
            {"device": 0, "total_size": 8, "allocated_size": 3, "segment_pool_id": (0, 0)},
            {"device": 1, "total_size": 8, "allocated_size": 3, "segment_pool_id": (0, 1)},
            {"device": 0, "total_size": 8, "allocated_size": 3},  # before PyTorch had pools
        ]
        self.assertEqual(alive.pool_bytes({"segments": segments}, 0), 5)

    def test_modules_make_parameters(self):
        places = alive.Places("/t/torch/", "/p/")
        self.assertTrue(places.built_by_module([frame("/t/torch/nn/modules/module.py", 1, "_apply")]))
        self.assertFalse(places.built_by_module([frame("/t/torch/nn/modules/module.py", 1, "_call_impl")]))
        self.assertFalse(places.built_by_module([frame("/srv/nn/modules/mine.py", 1, "__init__")]))


class Allocator:
    """Stands for torch._C._cuda_memoryStats and _cuda_resetPeakMemoryStats."""

    def __init__(self):
        self.now = self.highest = 0

    def use(self, *levels):
        for self.now in levels:
            self.highest = max(self.highest, self.now)

    def stats(self, device):
        figure = {"current": self.now, "peak": self.highest, "allocated": 9, "freed": 2}
        names = ("allocated_bytes", "requested_bytes", "reserved_bytes", "segment", "allocation")
        return dict({name: {"all": dict(figure), "large_pool": dict(figure)} for name in names}, num_ooms=1)

    def reset(self, device):
        self.highest = self.now


class EngineTest(unittest.TestCase):
    def test_lines_of_an_engine_are_repeated(self):
        before, written = logging.getLogRecordFactory(), []
        try:
            session = types.SimpleNamespace(write=written.append)
            engine.repeat(session, "SGLang", "0.5", engine.OF_SGLANG)
            for name in ("sglang", "other"):  # nothing of it on the screen
                logging.getLogger(name).addHandler(logging.NullHandler())
                logging.getLogger(name).propagate = False
            logging.getLogger("sglang.srt.a").warning("KV Cache is allocated. #tokens: %d\nmore", 7)
            logging.getLogger("sglang.srt.a").warning("KV Cache %d", "is not a number")
            logging.getLogger("other").warning("KV Cache is allocated.")
        finally:
            logging.setLogRecordFactory(before)
        line = "KV Cache is allocated. #tokens: 7"
        self.assertEqual(written, [{"event": "engine", "name": "SGLang 0.5", "line": line}])


class SnapshotTest(unittest.TestCase):
    def test_inductor_is_left_alone(self):
        torch = types.ModuleType("torch")
        seen = []
        memory = types.SimpleNamespace(_snapshot=lambda: seen.append(hasattr(torch._inductor, "codecache")))
        torch.cuda = types.SimpleNamespace(memory=memory)
        history.snapshot(torch)
        self.assertEqual((seen, hasattr(torch, "_inductor")), ([False], False))


class FiguresTest(unittest.TestCase):
    def setUp(self):
        self.allocator = Allocator()
        self.figures = Figures(self.allocator.stats, self.allocator.reset)

    def end_step(self):
        return self.figures.end_step(0, self.figures.look(0))

    def script_reads(self):
        stats = self.figures.as_the_script_sees(0, self.allocator.stats(0))
        return stats["allocated_bytes"]["all"]["peak"], stats["reserved_bytes"]["large_pool"]["peak"]

    def script_resets(self):
        self.figures.script_resets_peak(0)
        self.allocator.reset(0)

    def test_each_step_has_its_own_peak_and_the_script_sees_none_of_it(self):
        self.allocator.use(100, 10)
        self.assertEqual(self.end_step()["peak"]["allocated"], 100)
        self.assertEqual(self.script_reads(), (100, 100))
        self.allocator.use(50, 20)
        self.assertEqual(self.script_reads(), (100, 100))
        step = self.end_step()
        self.assertEqual((step["peak"]["allocated"], step["live"]["allocated"]), (50, 20))
        self.assertEqual(self.script_reads(), (100, 100))
        self.allocator.use(120)
        self.assertEqual(self.script_reads(), (120, 120))

    def test_a_reset_by_the_script_is_the_scripts_and_the_run_remembers(self):
        self.allocator.use(100, 10)
        self.end_step()
        self.script_resets()
        self.assertEqual(self.script_reads(), (10, 10))
        self.allocator.use(70, 10)
        self.script_resets()
        self.allocator.use(30)
        self.assertEqual(self.script_reads(), (30, 30))
        self.assertEqual(self.end_step()["peak"]["allocated"], 70)
        self.assertEqual(self.figures.whole_run(0)["peak"]["allocated"], 100)

    def test_counters_go_on_after_a_reset_by_the_script(self):
        self.figures.script_resets_counters(0)
        self.assertEqual(self.figures.whole_run(0)["ooms"], 2)
        self.assertEqual(self.figures.allocations(0), 18)


class StopRuleTest(unittest.TestCase):
    @staticmethod
    def step(peak):
        return {"0": {"peak": {"allocated": peak, "reserved": 1}, "live": {"allocated": 1}, "segments": 1}}

    def test_number_of_steps(self):
        rule = StopRule(2, False)
        self.assertEqual([rule.after(n, 0, self.step(1)) for n in (1, 2, 3)], [None, "steps", "steps"])
        self.assertIsNone(StopRule(0, False).after(99, 0, {}))

    def test_two_steps_like_the_one_before(self):
        rule = StopRule(0, True)
        found = [rule.after(n, 0, self.step(peak)) for n, peak in enumerate((1, 2, 2, 3, 3, 3))]
        self.assertEqual(found, [None] * 5 + ["until-stable"])

    def test_optimizers_that_take_turns(self):
        rule = StopRule(0, True)
        found = [rule.after(n, n % 2, self.step(n % 2)) for n in range(6)]
        self.assertEqual(found, [None] * 5 + ["until-stable"])

    def test_steps_without_a_gpu_are_not_stable(self):
        rule = StopRule(0, True)
        self.assertEqual([rule.after(n, 0, {}) for n in range(5)], [None] * 5)


class Events:
    def __init__(self):
        self.written = []

    def write(self, event):
        self.written.append(event)


class CompileTest(unittest.TestCase):
    def test_graphs_and_breaks_are_counted(self):
        events = Events()
        found = compile.Compilations(events.write)
        self.assertIsNone(found.event())
        place = types.SimpleNamespace(filename="/x/a.py", lineno=3)
        for _ in range(2):
            found.begin_graph()
            found.note_break(types.SimpleNamespace(reason="print()\nmore", user_stack=[place], graph_break=True))
        found.note_break(types.SimpleNamespace(reason="the end", user_stack=[], graph_break=False))
        self.assertEqual([event["graph"] for event in events.written], [1, 2])
        breaks = [{"file": "/x/a.py", "line": 3, "reason": "print()", "times": 2}]
        self.assertEqual(found.event(), {"event": "compiled", "graphs": 2, "breaks": breaks})

    def test_notes_of_the_parts_of_a_graph(self):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
            file.write("import torch\n\ndef partition_0():\n    a\n    b\n\ncall()\n")
            file.flush()
            part = ("\n\ndef partition_0():\n    a\n    b\n", [(4, "first"), (5, "second")])
            other = ("\ndef partition_1():\n    c\n", [(2, "elsewhere")])
            self.assertEqual(generated._merged(file.name, [part, other]), [(4, "first"), (5, "second")])

    def test_of_several_operators_pytorch_s_own_is_taken(self):
        class Extern:
            name = "mm"

        class Template:
            name = "triton_mm_0"
            workspace_arg = types.SimpleNamespace(count=100, dtype=types.SimpleNamespace(itemsize=4))

        timed = []

        class Selector:
            def __call__(self, name, choices, inputs, layout):
                return choices

            def benchmark(self, choices, inputs, layout, input_gen_fns):
                timed.append((choices, layout))

        module = types.SimpleNamespace(AlgorithmSelectorCache=Selector, ExternKernelCaller=Extern)
        said = []
        autotune._choose_operators(module, lambda *choice: said.append(choice), lambda function: function)
        gpu, cpu = (types.SimpleNamespace(device=types.SimpleNamespace(type=kind)) for kind in ("cuda", "cpu"))
        mine, theirs = Extern(), Template()
        operand = types.SimpleNamespace(get_size=lambda: [64, 8])
        for _ in range(2):
            self.assertEqual(Selector()("mm", [theirs, mine], [operand, operand], gpu), [mine])
        self.assertEqual(Selector()("mm", [theirs, mine], [operand], cpu), [mine])
        self.assertEqual(Selector()("mm", [theirs, theirs], [operand], gpu), [theirs])
        self.assertEqual(Selector()("mm", [theirs], [operand], gpu), [theirs])
        self.assertEqual(timed, [([mine], gpu)])  # once for each call of its kind
        self.assertEqual(said[0], ("operator", "mm(64x8, 64x8)", "mm", 2, 400))
        self.assertEqual(len(said), 4)  # of one choice there is nothing to say

    def test_the_first_configuration_is_timed_once(self):
        for bench, timed in ((lambda self, launcher, *args, **kwargs: 0, {"n": 3}),
                             (lambda self, launcher, *args, grid, **kwargs: 0, {"grid": (1,), "n": 3})):  # until 2.6
            class Tuner:
                launchers = ()

                def precompile(self):
                    self.launchers = (1,)

                def autotune_to_one_config(self, *args, **kwargs):
                    self.timed.append((args, kwargs))

                def run(self, *args, **kwargs):
                    return args

            def cached_autotune(size_hints, configs, inductor_meta=None):
                def decorate(function):
                    tuner = Tuner()
                    tuner.configs, tuner.timed = configs, []
                    return tuner

                return decorate

            Tuner.bench = bench
            module = types.SimpleNamespace(CachingAutotuner=Tuner, cached_autotune=cached_autotune)
            said = []
            autotune._choose_configs(module, lambda *choice: said.append(choice))
            one = module.cached_autotune([8], ["a"])(None)
            several = module.cached_autotune([8], ["a", "b"], inductor_meta={"kernel_name": "k"})(None)
            for tuner in (one, several, several):
                self.assertEqual(tuner.run(5, grid=(1,), stream=0, n=3), (5,))
            self.assertEqual((one.timed, several.configs, several.timed), ([], ["a"], [((5,), timed)]))
            self.assertEqual(said, [("configuration", "k", "a", 2)])


class Tensor:
    """What the rules ask of a tensor."""

    def __init__(self, values, dtype="torch.int64", is_cuda=False):
        self.values, self.dtype, self.is_cuda = values, dtype, is_cuda

    def numel(self):
        return len(self.values)

    def count_nonzero(self):
        return sum(map(bool, self.values))

    def sum(self):
        return sum(self.values)

    def min(self):
        return min(self.values)

    def max(self):
        return max(self.values)


class ValuesTest(unittest.TestCase):
    def test_what_writes_into_its_arguments(self):
        for name in ("add_", "__iadd__", "__setitem__", "_foreach_add_", "index_put_"):
            self.assertTrue(arguments.changes(name, {}), name)
        for name in ("add", "__add__", "__getitem__", "__invert__", "__int__", "__index__", "item"):
            self.assertFalse(arguments.changes(name, {}), name)
        self.assertTrue(arguments.changes("add", {"out": None}))

    def test_the_same_call_on_the_host(self):
        on_gpu, other, on_host = Tensor([1], is_cuda=True), Tensor([2], is_cuda=True), Tensor([3])
        torch = types.SimpleNamespace(Tensor=Tensor)
        args, kwargs = arguments.swapped(
            ([on_gpu, on_host], other, 7, "cuda:1"), {"device": 0, "pin_memory": True, "dim": 1}, ("a", "b"), torch
        )
        self.assertEqual(args, [["a", on_host], "b", 7, "cpu"])
        self.assertEqual(kwargs, {"device": "cpu", "dim": 1})

    def test_what_the_host_reads_while_an_operator_runs(self):
        def reads(name, *args, result=None):
            return rules.READS[name](args, {}, result)

        mask = Tensor([True, False, True], "torch.bool")
        index, condition = Tensor([4, 2, 9]), Tensor([0, 5])
        self.assertEqual(reads("nonzero", mask), [2])
        self.assertEqual(reads("where", condition), [1])
        self.assertEqual(reads("where", condition, index, index), [])  # its result is as large as its arguments
        self.assertEqual(reads("__getitem__", index, (slice(None), mask, index)), [2])
        self.assertEqual(reads("bincount", index), [2, 9])
        self.assertEqual(reads("bincount", Tensor([])), [])
        self.assertEqual(reads("repeat_interleave", index), [15, 1])

    def test_no_function_is_of_two_kinds(self):
        self.assertFalse(rules.UNSEEN & (rules.DRAWN | rules.ELEMENTWISE | rules.CHOICES | frozenset(rules.READS)))
        self.assertFalse(rules.PLAIN & (rules.CHOICES | rules.FINITE | rules.SAME_AS_ITSELF | frozenset(rules.BOUNDS)))


class ToolchainTest(unittest.TestCase):
    COMMAND = "CalledProcessError: Command '['/usr/bin/gcc', '/x/triton/backends/nvidia/driver.c', '-I%s']' returned 1"

    def test_names_what_to_install(self):
        for text, package in (
            ("RuntimeError: Failed to find C compiler. Please specify via CC", "install gcc"),
            ("No working C++ compiler found in torch._inductor.config.cpp.cxx", "install g++"),
            ("Cannot find a working triton installation.", "install triton"),
            (self.COMMAND % "/nowhere/include/python3.11", "no /nowhere/include/python3.11/Python.h"),
            (self.COMMAND % "/x", "the C compiler that builds Triton's launcher failed"),
        ):
            self.assertIn(package, what_is_missing(RuntimeError(text)))

    def test_other_errors_are_the_scripts_own(self):
        for text in ("CUDA out of memory", "CalledProcessError: Command '['git', 'status']' returned 1"):
            self.assertIsNone(what_is_missing(RuntimeError(text)))


class ProcessTest(unittest.TestCase):
    def test_a_torch_without_cuda_names_the_index_to_install_from(self):
        def reason(release, **versions):
            version = types.SimpleNamespace(**versions)
            return process.without_cuda(types.SimpleNamespace(__version__=release, version=version))

        self.assertIsNone(reason("2.8.0+cu128", cuda="12.8"))
        self.assertEqual(
            reason("2.8.0+cpu", cuda=None),
            "this Python's torch 2.8.0+cpu has no CUDA in it; install the CUDA build: "
            "pip install torch --index-url https://download.pytorch.org/whl/cu128",
        )
        self.assertIn("is built for ROCm", reason("2.9.0+rocm6.4", cuda=None, hip="6.4"))
        self.assertIn("/cu121", reason("2.1.0+cpu", cuda=None))
        self.assertIn("/cu128", reason("3.0.0a0+git", cuda=None))

    def test_sizes_read_as_pytorchs(self):
        sizes = (1, 1024, 1536, 3 * MIB, 1 << 32)
        self.assertEqual(
            [process.size_text(size) for size in sizes], ["1 bytes", "1024 bytes", "1.50 KiB", "3.00 MiB", "4.00 GiB"]
        )

    def test_an_error_that_comes_of_values_is_said_to(self):
        text = "torch.linalg.eig: input tensor should not contain infs or NaNs."
        self.assertIn("which read as zero", process.check_of_values(RuntimeError(text)))
        self.assertIsNone(process.check_of_values(RuntimeError("CUDA out of memory")))

    def test_a_call_before_the_program_leaves(self):
        code = "import os, gpuplan_shadow_process as process\n"
        code += "process.before_leaving(('_exit', 'absent'), lambda: print('last words', flush=True))\n"
        code += "print(os._exit.__name__, flush=True); os._exit(3)"
        done = subprocess.run([sys.executable, "-c", code], cwd=HOOK, stdout=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (3, "_exit\nlast words\n"))

    def test_an_interrupt_ends_python_as_it_would_without_us(self):
        code = "import atexit, os, signal, gpuplan_shadow_process as process\n"
        code += "atexit.register(process.still_ends_by_interrupt)\n"
        code += "atexit.register(lambda: eval('1'))\n"
        code += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        code += "os.kill(os.getpid(), signal.SIGINT)"
        done = subprocess.run([sys.executable, "-c", code], cwd=HOOK, stderr=subprocess.DEVNULL)
        self.assertEqual(done.returncode, -2)

    def test_settings(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "session")
            with open(path, "w") as file:
                file.write("steps=3\nuntil_stable=1\nsnapshot=/a=b.pickle\npeers=2\nworld=8\nrank=5\nworse\nsteps2=x\n")
            settings = read_settings(path)
            self.assertEqual((settings.steps, settings.until_stable, settings.snapshot), (3, True, "/a=b.pickle"))
            self.assertEqual(process.rank_and_world(settings), (5, 8))
            self.assertTrue(read_settings(path + "2").python_lines)


class Loading(unittest.TestCase):
    """A whole Python with a torch that is a few lines."""

    def run_python(self, code, modules=(), session=True):
        with tempfile.TemporaryDirectory() as directory:
            for name, text in modules:
                path = os.path.join(directory, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w") as file:
                    file.write(text)
            environment = dict(os.environ, PYTHONPATH=HOOK + os.pathsep + directory, PYTHONDONTWRITEBYTECODE="1")
            environment.pop("GPUPLAN_SHADOW_SESSION", None)
            if session:
                os.mkdir(os.path.join(directory, "s"))
                environment["GPUPLAN_SHADOW_SESSION"] = os.path.join(directory, "s")
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            events = []
            if session:
                for name in os.listdir(os.path.join(directory, "s")):
                    with open(os.path.join(directory, "s", name)) as file:
                        events += [json.loads(line) for line in file]
            return done, events

    def test_the_hidden_sitecustomize_runs_with_and_without_a_session(self):
        hidden = [("sitecustomize.py", "import sys\nsys.hidden = __name__\nvalue = 5\n")]
        code = "import sys, sitecustomize; print(sys.hidden, sitecustomize.value, sitecustomize.__file__)"
        for session in (False, True):
            done, events = self.run_python(code, hidden, session)
            self.assertEqual(done.stdout.split()[:2], ["sitecustomize", "5"], done.stderr)
            self.assertEqual((done.returncode, done.stderr, events), (0, "", []))

    def test_an_error_in_the_hidden_one_is_reported_by_python(self):
        done, _ = self.run_python("print('on')", [("sitecustomize.py", "raise RuntimeError('its own')\n")])
        self.assertEqual((done.returncode, done.stdout), (0, "on\n"))
        self.assertIn("RuntimeError: its own", done.stderr)

    def test_without_torch_nothing_is_written(self):
        done, events = self.run_python("import json, sys; print('torch' in sys.modules)")
        self.assertEqual((done.stdout, done.stderr, events), ("False\n", "", []))

    def test_a_torch_without_cuda_ends_the_script(self):
        torch = "from types import SimpleNamespace\n__version__ = '2.8.0+cpu'\nversion = SimpleNamespace(cuda=None)\n"
        code = "try:\n  import torch\nexcept ImportError:\n  pass\nprint('not reached')"
        done, events = self.run_python(code, [("torch/__init__.py", torch)])
        self.assertEqual((done.returncode, done.stdout), (4, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1)
        self.assertIn("gpuplan shadow: this Python's torch 2.8.0+cpu has no CUDA in it; install", done.stderr)
        self.assertEqual([(event["event"], event["code"]) for event in events], [("problem", 4)])

    def test_a_torch_that_the_hook_does_not_understand_runs_on(self):
        torch = "from types import SimpleNamespace\n__version__ = '9.9'\nversion = SimpleNamespace(cuda='99')\n"
        code = "import torch\nprint(torch.__loader__.get_source('torch') is not None, torch.__version__)"
        done, events = self.run_python(code, [("torch/__init__.py", torch)])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "True 9.9\n", ""))
        self.assertEqual([event["event"] for event in events], ["problem"])
        self.assertEqual(events[0]["code"], 0)

    def test_an_error_in_torch_is_torchs(self):
        done, events = self.run_python("import torch", [("torch/__init__.py", "raise ImportError('libcudart')\n")])
        self.assertEqual(done.returncode, 1)
        self.assertIn("ImportError: libcudart", done.stderr)
        self.assertNotIn("gpuplan", done.stderr.splitlines()[-1])
        self.assertEqual(events, [])


if __name__ == "__main__":
    unittest.main()
