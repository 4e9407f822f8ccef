"""children.py: three children one after another, which take 60, 40 and 20 MiB and leave without atexit. The first one
imports torch itself."""

import os

for mebibytes in (60, 40, 20):
    child = os.fork()
    if child == 0:
        import torch

        taken = torch.empty(mebibytes << 20, dtype=torch.uint8, device="cuda")
        os._exit(0)
    os.waitpid(child, 0)
    import torch
