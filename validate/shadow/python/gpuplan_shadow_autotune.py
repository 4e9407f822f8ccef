"""Autotuning without a clock. Inductor and Triton time several kernels for one operation and take the fastest. Nothing
can be timed here, so the choice is the one that Inductor makes without autotuning (PyTorch's own operator where there
is one, otherwise the first configuration), always the same; the others are not even compiled. Each such choice is an
event `choice`: what was chosen, among how many, and the largest workspace among those left out, in bytes."""

import functools
import inspect


def take_first(after_import, session, safe):
    """`session` takes the events; the processes that compile for a script have one, too."""
    said = set()

    def chosen(kind, name, taken, count, workspace=0):
        key = (kind, name, count)
        if count > 1 and key not in said:
            said.add(key)
            session.write(
                {"event": "choice", "kind": kind, "name": name, "taken": taken, "of": count, "workspace": workspace}
            )

    chosen = safe(chosen)
    after_import("torch._inductor.select_algorithm", safe(lambda module: _choose_operators(module, chosen, safe)))
    after_import("torch._inductor.runtime.triton_heuristics", safe(lambda module: _choose_configs(module, chosen)))
    after_import("triton.testing", safe(_bench_briefly))
    after_import("triton.runtime.autotuner", safe(lambda module: _choose_in_triton(module, chosen)))


def _choose_operators(module, chosen, safe):
    """Matrix products and convolutions: an operator of PyTorch's, or one of many Triton templates. PyTorch's own is
    timed as it would be among the others, since that allocates operands, a result and what empties the cache."""
    original, timed, time_one = module.AlgorithmSelectorCache.__call__, set(), safe(_time_one)

    @functools.wraps(original)
    def select(self, name, choices, *args, **kwargs):
        if len(choices) > 1:
            extern = [choice for choice in choices if isinstance(choice, module.ExternKernelCaller)]
            first = (extern or choices)[0]
            workspace = max(_workspace(choice) for choice in choices)
            operands = args[0] if args else kwargs.get("input_nodes", ())
            call = name + _sizes(operands)
            chosen("operator", call, getattr(first, "name", "?"), len(choices), workspace)
            choices = [first]
            if extern and call not in timed:
                timed.add(call)
                time_one(self, first, *args, **kwargs)
        return original(self, name, choices, *args, **kwargs)

    module.AlgorithmSelectorCache.__call__ = select


def _time_one(selector, choice, input_nodes, layout, input_gen_fns=None, *args, **kwargs):
    if layout.device.type == "cuda":
        selector.benchmark([choice], input_nodes, layout, input_gen_fns)


def _sizes(operands):
    """"(64x1024, 1024x4096)"."""
    try:
        return "(%s)" % ", ".join("x".join(map(str, operand.get_size())) for operand in operands)
    except Exception:  # not every kind of operand has a size
        return ""


def _workspace(choice):
    """Bytes that a template would take beside its operands; 0 where that is not a number yet, or not built: a choice
    that is a graph of its own raises where it is asked."""
    try:
        wanted = getattr(choice, "workspace_arg", None) or choice.bmreq.workspace_arg
        return int(wanted.count) * getattr(getattr(wanted, "dtype", None), "itemsize", 1)
    except Exception:
        return 0


def _choose_configs(module, chosen):
    """Inductor's own kernels: block sizes and warps. The list begins with what it takes without autotuning, which is
    timed at its first launch as it would be among others, since that allocates."""
    original, tuner = module.cached_autotune, module.CachingAutotuner

    @functools.wraps(original)
    def first_config(size_hints, configs, *args, **kwargs):
        count = len(configs or ())
        if count < 2:
            return original(size_hints, configs, *args, **kwargs)
        meta = kwargs.get("inductor_meta") or {}
        chosen("configuration", str(meta.get("kernel_name", "?")), str(configs[0]), count)
        decorate = original(size_hints, configs[:1], *args, **kwargs)

        def tuned(function):
            kernel = decorate(function)
            kernel.gpuplan_untimed = True  # kept where a process that compiles hands it over
            return kernel

        return tuned

    run = tuner.run
    of_run = _OF_RUN - set(inspect.signature(tuner.bench).parameters)  # until 2.6, timing a launch needs its grid

    @functools.wraps(run)
    def time_once(self, *args, **kwargs):
        if getattr(self, "gpuplan_untimed", False):
            self.gpuplan_untimed = False
            if not self.launchers:
                self.precompile()
            self.autotune_to_one_config(*args, **{key: kwargs[key] for key in kwargs if key not in of_run})
        return run(self, *args, **kwargs)

    module.cached_autotune, tuner.run = first_config, time_once
    if hasattr(tuner, "coordinate_descent_tuning"):
        tuner.coordinate_descent_tuning = lambda self, launcher, *args, **kwargs: launcher


_OF_RUN = {"stream", "grid", "benchmark_run"}  # parameters of run() that are none of the kernel's


def _choose_in_triton(module, chosen):
    """@triton.autotune: the first configuration that the GPU can run. It is timed as on a GPU, since that allocates;
    the others are not."""
    tuner = module.Autotuner
    run, bench = tuner.run, tuner._bench

    @functools.wraps(run)
    def run_first(self, *args, **kwargs):
        self.gpuplan_found = False
        return run(self, *args, **kwargs)

    @functools.wraps(bench)
    def bench_first(self, *args, **kwargs):
        if getattr(self, "gpuplan_found", False):
            return [float("inf")] * 3
        timings = bench(self, *args, **kwargs)
        first = timings[0] if isinstance(timings, (list, tuple)) else timings
        self.gpuplan_found = first != float("inf")  # infinite: more registers or shared memory than there are
        if self.gpuplan_found:
            name = getattr(getattr(self, "base_fn", None), "__name__", "?")
            chosen("configuration", name, str(kwargs.get("config")), len(self.configs))
        return timings

    tuner.run, tuner._bench = run_first, bench_first


def _bench_briefly(module):
    """triton.testing.do_bench runs a kernel for a tenth of a second, which at a microsecond a launch is 100,000 times."""
    original = module.do_bench

    @functools.wraps(original)
    def do_bench(fn, warmup=0, rep=0, *args, **kwargs):
        return original(fn, 0, 0, *args, **kwargs)

    module.do_bench = do_bench
