"""A compiled step that does not end as it should: `python ended.py kill|term|fork`. It gets the signal while Inductor
compiles; or a process that it forked compiles, too."""

import os
import signal
import sys
import threading
import time

import torch

how = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.GELU(), torch.nn.LayerNorm(256)).cuda()
compiled = torch.compile(model)


def interrupt():
    while not os.path.isdir(os.environ["TORCHINDUCTOR_CACHE_DIR"]):
        time.sleep(0.01)
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGKILL if how == "kill" else signal.SIGTERM)


if how == "fork":
    child = os.fork()
    if child == 0:
        torch.compile(torch.nn.Linear(8, 8))(torch.ones(8, 8))
        os._exit(0)
    os.waitpid(child, 0)
else:
    threading.Thread(target=interrupt, daemon=True).start()
compiled(torch.randn(8, 256, device="cuda")).sum().backward()
