"""What the script sees of PyTorch's statistics while the hook resets their peaks: what it would see without it."""

import functools


def watch_statistics(torch, figures, safe):
    """Puts the hook between the script and the four functions through which all of torch.cuda's and torch.accelerator's
    statistics go. `figures()`: the Figures of this process. `safe`: a decorator that keeps our errors from the script.
    """

    def correct(device, stats):
        return figures().as_the_script_sees(device, stats)

    def peak(device):
        figures().script_resets_peak(device)

    def counters(device):
        figures().script_resets_counters(device)

    for name in ("_cuda_memoryStats", "_accelerator_getDeviceStats"):
        _after(torch._C, name, safe(correct))
    for name in ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats"):
        _before(torch._C, name, safe(peak))
    for name in ("_cuda_resetAccumulatedMemoryStats", "_accelerator_resetAccumulatedStats"):
        _before(torch._C, name, safe(counters))


def _after(owner, name, correct):
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def corrected(device):
        stats = original(device)
        correct(device, stats)  # in place
        return stats

    setattr(owner, name, corrected)


def _before(owner, name, note):
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def noted(device):
        note(device)
        return original(device)

    setattr(owner, name, noted)
