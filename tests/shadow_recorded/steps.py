"""Training steps and inferences, and what PyTorch's allocator says of their memory, phase by phase.

A reading is three numbers, in bytes:
    requested   what operators asked for
    allocated   torch.cuda.memory_allocated(): rounded to 512 B, and blocks that the allocator does not split count whole
    reserved    torch.cuda.memory_reserved(): segments taken from the driver
"""
import contextlib
import ctypes
import gc

import torch

KINDS = ("requested", "allocated", "reserved")
WARM, STEADY = 0, 2  # the steps reported: the first, which has no optimizer state yet, and a steady one
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "fp64": torch.float64}
OPTIMIZERS = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW,
              "rmsprop": torch.optim.RMSprop, "adagrad": torch.optim.Adagrad, "adadelta": torch.optim.Adadelta,
              "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam, "adamax": torch.optim.Adamax}

LOOPS = ("in_backward", "master", "offload_optimizer")  # the keys of ../recorders/saving_memory.py


def stat(which):
    s = torch.cuda.memory_stats()
    return [s["%s_bytes.all.%s" % (k, which)] for k in KINDS]


def current():
    return dict(zip(KINDS, stat("current")))


def launches():
    """Kernels launched so far, cuDNN's graphs too; the recordings leave out cuBLAS and cuDNN's batch norm. 0
    under a runtime that does not count them."""
    runtime = ctypes.CDLL(None)
    if not hasattr(runtime, "gpuplan_shadow_launches"):
        return 0
    return runtime.gpuplan_shadow_launches() - runtime.gpuplan_shadow_library_calls()


class Meter:
    """Readings at the ends of phases: live bytes there, and the peak since the phase before."""

    def __init__(self, tracing):
        self.rows, self.marks, self.on, self.tracing = [], [], False, tracing

    def __call__(self, phase):
        if self.on:
            self.rows.append((phase, stat("current"), stat("peak"), launches()))
            torch.cuda.reset_peak_memory_stats()
            if self.tracing:
                self.marks.append((phase, len(torch.cuda.memory._snapshot()["device_traces"][0])))

    def take(self):
        rows, self.rows = self.rows, []
        out = {}
        before = None
        for phase, live, peak, n in rows:
            out[phase] = {"live": dict(zip(KINDS, live)), "peak": dict(zip(KINDS, peak))}
            if before is not None:
                out[phase]["kernels"] = n - before
            before = n
        out["peak"] = {k: max(r[2][i] for r in rows) for i, k in enumerate(KINDS)}
        out["peak_phase"] = {k: max(rows, key=lambda r: r[2][i])[0] for i, k in enumerate(KINDS)}
        return out


def optimizer_maker(recipe):
    """Makes the recipe's optimizer of some parameters."""
    kw = {"foreach": {}, "forloop": {"foreach": False}, "fused": {"fused": True}}[recipe.get("impl", "foreach")]
    if recipe["opt"] == "momentum":
        return lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9, **kw)
    return lambda parameters: OPTIMIZERS[recipe["opt"]](parameters, lr=1e-3, **kw)


class Update:
    """What a step does once gradients are there: PyTorch's optimizer, or the loop of ../recorders/saving_memory.py."""

    def __init__(self, recipe, model):
        self.made, make = [], optimizer_maker(recipe)
        self.parameters = [p for p in model.parameters() if p.requires_grad]

        def noted(parameters):
            self.made.append(make(parameters))
            return self.made[-1]

        loop = next((key for key in LOOPS if recipe.get(key)), None)
        if loop:
            import saving_memory
            self.loop = saving_memory.LOOPS[loop](self.parameters, noted)
        else:
            self.loop = noted(self.parameters)
        self.copies = getattr(self.loop, "copies", [])

    def clip(self, model):
        """Before the step, and of what it reads: the copies' gradients where those are made first."""
        torch.nn.utils.clip_grad_norm_(self.copies if hasattr(self.loop, "copy_grads") else model.parameters(), 1.0)

    def state_bytes(self):
        states = (s for made in self.made for state in made.state.values() for s in state.values())
        return bytes_of(t for t in [*states, *self.copies] if torch.is_tensor(t) and t.is_cuda)

    def gradient_bytes(self, model):
        return bytes_of(p.grad for p in [*model.parameters(), *self.copies] if p.grad is not None and p.grad.is_cuda)


def mapped(function, x):
    """The batch with `function` applied to every tensor of it."""
    if torch.is_tensor(x):
        return function(x)
    if isinstance(x, dict):
        return {k: mapped(function, v) for k, v in x.items()}
    return type(x)(mapped(function, v) for v in x) if isinstance(x, (list, tuple)) else x


def tensors(x):
    found = []
    mapped(found.append, x)
    return found


def floating(x, dtype):
    return mapped(lambda t: t.to(dtype) if t.is_floating_point() else t, x)


def bytes_of(some):
    return sum(t.numel() * t.element_size() for t in some)


def built(case, recipe):
    """The model, made on the device in the recipe's type."""
    torch.set_default_dtype(DTYPES[recipe.get("dtype", "fp32")])
    with torch.device("cuda"):
        model = case.build(recipe)
    torch.set_default_dtype(torch.float32)
    return model


def autocast(recipe):
    amp = DTYPES[recipe["amp"]] if recipe.get("amp") else None
    return torch.autocast("cuda", dtype=amp, enabled=amp is not None)


def images_last(batch):
    return tuple(t.to(memory_format=torch.channels_last) if torch.is_tensor(t) and t.dim() == 4 else t for t in batch)


def saved_elsewhere(recipe):
    on_cpu = recipe.get("offload_saved")
    return torch.autograd.graph.save_on_cpu() if on_cpu else contextlib.nullcontext()


class Training:
    """The model, its optimizer and its batch on the device, and one step on them."""

    def __init__(self, case, recipe, meter, out):
        self.case, self.recipe, self.meter = case, recipe, meter
        self.model = built(case, recipe)
        if recipe.get("channels_last"):
            self.model = self.model.to(memory_format=torch.channels_last)
        self.model.train()
        out["model"] = current()
        self.update = Update(recipe, self.model)
        self.scaler = torch.amp.GradScaler("cuda") if recipe.get("amp") == "fp16" else None
        with torch.device("cuda"):
            self.batch = floating(case.batch(recipe["batch"]), DTYPES[recipe.get("dtype", "fp32")])
        if recipe.get("channels_last"):
            self.batch = images_last(self.batch)
        out["inputs"] = bytes_of(tensors(self.batch))
        self.held = None

    def forward(self, micro_batch):
        with saved_elsewhere(self.recipe), autocast(self.recipe):
            y = self.case.forward(self.model, micro_batch)
            self.meter("forward")
            return y, self.case.loss(self.model, y, micro_batch)

    def backward(self, loss):
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        self.meter("backward")

    def optimize(self):
        if self.scaler:
            self.scaler.step(self.update.loop)
            self.scaler.update()
        else:
            self.update.loop.step()
        self.meter("optimizer")

    def start(self):
        self.update.loop.zero_grad()
        self.meter("start")

    def step(self):
        """As a function: output and loss are gone when it returns."""
        micro = self.recipe.get("micro", 1)
        size = self.recipe["batch"] // micro
        self.start()
        for i in range(micro):
            rows = mapped(lambda t: t[i * size:(i + 1) * size], self.batch) if micro > 1 else self.batch
            y, loss = self.forward(rows)
            if micro > 1:
                loss = loss / micro
            if self.recipe.get("loop") == "loss_only":
                del y
            self.meter("loss")
            self.backward(loss)
            if self.recipe.get("loop") == "loss_only":
                del loss
            else:
                del y, loss
        if hasattr(self.update.loop, "copy_grads"):
            self.update.loop.copy_grads()
        if self.recipe.get("clip"):
            self.update.clip(self.model)
            self.meter("clip")
        self.optimize()

    def plain_step(self):
        """As scripts write it at module level: the last output and loss live until they are bound again."""
        self.start()
        y, loss = self.forward(self.batch)
        self.held = (y, loss)
        self.meter("loss")
        self.backward(loss)
        self.optimize()


def train(case, recipe, meter):
    out = {}
    t = Training(case, recipe, meter, out)
    step = t.plain_step if recipe.get("loop") == "plain" else t.step
    for i in range(STEADY + 1):
        meter.on = i in (WARM, STEADY)
        torch.cuda.reset_peak_memory_stats()
        step()
        if meter.on:
            meter.on = False
            gc.collect()
            r = meter.take()
            r["end"] = current()
            out["first_step" if i == WARM else "steady_step"] = r
    out["optimizer_state"] = t.update.state_bytes()
    out["gradients"] = t.update.gradient_bytes(t.model)
    out["peak_from_start"] = {k: max(out[s]["peak"][k] for s in ("first_step", "steady_step")) for k in KINDS}
    s = torch.cuda.memory_stats()
    out["allocator"] = {"segments": s["segment.all.current"],
                        "inactive_split_bytes_peak": s["inactive_split_bytes.all.peak"],
                        "retries": s["num_alloc_retries"], "allocations": s["allocation.all.allocated"]}
    t.batch = None  # before the optimizer's state, as in the recorded traces
    return t.model, out


def infer(case, recipe, meter):
    case.evaluates = recipe.get("labels", False)
    model = built(case, recipe)
    model.eval()
    out = {"model": current()}
    with torch.device("cuda"):
        batch = case.batch(recipe["batch"])
        batch = floating(batch if recipe.get("labels") else case.without_labels(batch),
                         DTYPES[recipe.get("dtype", "fp32")])
    out["inputs"] = bytes_of(tensors(batch))

    def once():
        meter("start")
        with torch.no_grad(), autocast(recipe):
            y = case.forward(model, batch)
        meter("forward")
        del y

    for i in range(STEADY + 1):
        meter.on = i == STEADY
        torch.cuda.reset_peak_memory_stats()
        once()
    out["steady_step"] = meter.take()
    out["peak_from_start"] = out["steady_step"]["peak"]
    return model, out


def saved(case, recipe):
    """Distinct storages that autograd holds once the loss is computed: parameters, buffers and inputs apart."""
    model = built(case, recipe)
    with torch.device("cuda"):
        batch = floating(case.batch(recipe["batch"]), DTYPES[recipe.get("dtype", "fp32")])
    model.train()
    own = {t.untyped_storage().data_ptr() for t in [*model.parameters(), *model.buffers(), *tensors(batch)]}
    held, packed = {}, 0

    def pack(t):
        nonlocal packed
        packed += 1
        if t.is_cuda:
            s = t.untyped_storage()
            if s.nbytes() and s.data_ptr() not in own:
                held[s.data_ptr()] = s.nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t), autocast(recipe):
        y = case.forward(model, batch)
        loss = case.loss(model, y, batch)
    del loss
    return {"bytes": sum(held.values()), "tensors": len(held), "packed": packed}


def flops(case, recipe):
    """PyTorch's own count (torch.utils.flop_counter): forward with the loss, and backward."""
    from torch.utils.flop_counter import FlopCounterMode
    with torch.device("cuda"):
        model = case.build(recipe)
        batch = case.batch(recipe["batch"])
    model.train()
    with FlopCounterMode(display=False) as forward:
        y = case.forward(model, batch)
        loss = case.loss(model, y, batch)
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    return {"forward": forward.get_total_flops(), "backward": backward.get_total_flops()}
