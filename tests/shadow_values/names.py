"""names.py FOLDER: every function that the rules in FOLDER name is one that torch has from C, which is what is hooked: a
rule of any other name applies to nothing. Prints those that are not."""

import sys

import torch

sys.path.insert(0, sys.argv[1])
import gpuplan_shadow_value_rules as rules  # noqa: E402

c = torch._C
there = {name for space in (c._VariableFunctions, c.TensorBase, c._nn, c._linalg, c._fft, c._special) for name in dir(space)}
for table, names in vars(rules).items():
    if table.isupper() and isinstance(names, (frozenset, dict)):
        for name in sorted(set(names) - there):
            print(table, name)
