"""How --opt's words for optimizers without rules of their own are read, and what is refused."""
import os
import sys

import torch
from gpuplan import named_optimizers
from gpuplan.errors import GpuplanError
from gpuplan.optimizer_steps import Event, program, roles

FAILED = []


def check(name, right):
    print("ok " + name if right else "FAIL " + name)
    if not right:
        FAILED.append(name)


def parameters():
    shapes = {"embed.weight": (8, 4), "fc.weight": (4, 4), "norm.weight": (4,)}
    return [(name, torch.nn.Parameter(torch.zeros(shape))) for name, shape in shapes.items()]


def made(text):
    return named_optimizers.optimizers_named(text, parameters())


def refusal(text):
    try:
        made(text)
    except GpuplanError as error:
        return str(error)
    return ""


def sizes(optimizer):
    return [tuple(p.shape) for group in optimizer.param_groups for p in group["params"]]


(adafactor,) = made("adafactor")
check("a name of torch.optim in lower case", type(adafactor) is torch.optim.Adafactor)
(sgd,) = made("torch.optim.SGD(lr=0.5, momentum=0.9)")
check("arguments", sgd.defaults["lr"] == 0.5 and sgd.defaults["momentum"] == 0.9)
muon, adamw = made("muon:fc.weight,adamw(lr=0.1):rest")
check("shares", sizes(muon) == [(4, 4)] and sizes(adamw) == [(8, 4), (4,)])
muon, adamw = made("muon:matrices,adamw:rest")
check("matrices", sizes(muon) == [(8, 4), (4, 4)] and sizes(adamw) == [(4,)])
first, second = made("sgd:embed*+norm*,adamw:*")
check("what is named first steps a parameter that two name", sizes(first) == [(8, 4), (4,)] and sizes(second) == [(4, 4)])
for text, words in {
        "muon": "Muon only supports 2D parameters", "sgd:nope*,adamw:rest": "nope* selects none of the 3 parameters",
        "muon:matrices": "1 of 3 parameters have no optimizer, norm.weight", "muon:matrices,adamw": "adamw does not say which parameters",
        "nothing": "no optimizer is called nothing", "torch.optim.Nope": "torch.optim has no Nope", "adamw(0.1)": "NAME=VALUE",
        "adamw(lr=f())": "NAME=VALUE", "adamw(lr=1": "expected NAME", "adamw(lrr=1)": "unexpected keyword argument 'lrr'",
        "no_such_package.Adam": "No module named", "nowhere.py:make": "no such file", "torch.nn.Linear": "is no class of optimizers", "os.system": "is no class of optimizers"}.items():
    check("refuses " + text, words in refusal(text))

# A state of 8 bytes that each step makes anew, before it lets go of the old one.
steps = [[], [Event(True, 0, 8, 0)], [Event(True, 1, 8, 0), Event(False, 0, 8, 0)], [Event(True, 2, 8, 0), Event(False, 1, 8, 0)]]
slots = roles(steps)
check("a state's place", slots[0] == slots[1])
check("what takes it", program(steps[2], slots, {0, 1, 2}) == [("state", slots[1], 8), ("free_state", slots[1], 0)])
sys.stdout.flush()
os._exit(len(FAILED) > 0)
