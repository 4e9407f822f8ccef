"""Hopper's part of the tables from what a device answered: python convolution_device.py DEVICE DIRECTORY TESTS (needs numpy)

DEVICE is tests/reference/h100/convolutions/device.tsv.xz; DIRECTORY is estimator/operators, whose rule and table are read and written again with
the other GPUs' part as it is (convolution_ceilings.py comes after it); TESTS is tests/shadow, whose convolutions.tsv and convolutions_unseen.tsv get
device rows in place of the h200's. Shapes of the table that the device was not asked for are by rule there. One in 25 of the shapes that are not in
the table is kept from the rule's training, for convolutions_unseen.tsv.
"""
import collections
import lzma
import multiprocessing
import os
import sys
import zlib

import numpy as np

import convolution_rule as rule
import convolution_table as table
import convolution_table_add as tables
from convolution_ceilings import all_shapes

GPU = "h200"
TYPES = {"tf32": "fp32", "fp16": "fp16", "bf16": "bf16"}  # fp32 runs with TF32, PyTorch's default for convolutions
NOT_RECORDED = "?"


def held_out(shape):
    return zlib.crc32(" ".join(map(str, shape)).encode()) % 25 == 0


def read_device(path):
    """All shapes, and for each setup the rows of rule.COLUMNS and the three workspaces; -1: that pass was not asked."""
    found = collections.defaultdict(dict)
    with lzma.open(path, "rt") as lines:
        next(lines)
        for line in lines:
            which, dtype, layout, *sizes, workspace, _ = line.rstrip("\n").split("\t")
            if dtype in TYPES:
                passes = found[GPU, TYPES[dtype], layout].setdefault(tuple(map(int, sizes)), [-1] * 3)
                passes[table.PASSES.index(which)] = int(workspace)
    result, shapes = {}, set()
    for setup, convolutions in found.items():
        rows = []
        for (n, c, h, w, k, r, s, pad, stride, dilation, groups), passes in convolutions.items():
            p, q = ((size + 2 * pad - dilation * (taps - 1) - 1) // stride + 1 for size, taps in ((h, r), (w, s)))
            rows.append([n, c, h, w, k, r, s, p, q, stride, stride, pad, pad, dilation, dilation, groups, *passes])
        shapes |= {shape_of(row) for row in rows}
        rows = np.array(sorted(rows), np.int64)
        result[setup] = rows[~rule.native(setup[1], setup[2], rows[:, :16])]
    return result, shapes


def shape_of(row):
    """As the table has it: without the batch and the output's size."""
    return tuple(row[1:7]) + tuple(row[9:16])


def test_lines(setup, rows):
    for row in rows:
        for which, workspace in zip(table.PASSES, row[16:]):
            if workspace >= 0:
                yield "\t".join(map(str, (GPU, which, setup[2], setup[1], *row[:16], workspace)))


def replace_rows(path, lines, seed):
    """As many of `lines` as the file has of the GPU, drawn."""
    kept = open(path).read().splitlines()
    others = [line for line in kept if not line.startswith(GPU + "\t")]
    drawn = np.random.default_rng(seed).choice(len(lines), len(kept) - len(others), replace=False)
    with open(path, "w") as out:
        out.writelines(line + "\n" for line in [others[0], *(lines[i] for i in sorted(drawn)), *others[1:]])


def train(job):
    return rule.train(*job)


def main():
    device, directory, tests = sys.argv[1:4]
    rule_path, table_path = (os.path.join(directory, "cudnn_workspace_%s.cpp" % name) for name in ("rule_table", "table"))
    (asked, of_device), known = read_device(device), set(all_shapes(table_path))
    trained, recorded = tables.read_rule(rule_path), tables.read_table(table_path)
    seen, unseen, jobs = [], [], []
    for setup in table.SETUPS:
        if setup[0] == GPU:
            rows = asked[setup]
            kept = np.array([shape_of(r) not in known and held_out(shape_of(r)) for r in rows.tolist()])
            unseen += test_lines(setup, rows[kept].tolist())
            for which in (rows[~kept & (rows[:, 16 + i] >= 0)][:, [*range(16), 16 + i]] for i in range(3)):
                jobs.append((which[:, :16], which[:, 16], setup[1]))
    with multiprocessing.Pool() as pool:
        learned = pool.map(train, jobs, chunksize=1)
    for at, setup in enumerate(s for s in table.SETUPS if s[0] == GPU):
        trained[at] = learned[3 * at:3 * at + 3]
        rows = asked[setup]
        in_table = np.array([shape_of(r) in known and r[0] & (r[0] - 1) == 0 and min(r[16:]) >= 0 for r in rows.tolist()])
        seen += test_lines(setup, rows[in_table].tolist())
        recorded[at] = table.codes(setup, rows[in_table], trained[at]) | {s: NOT_RECORDED for s in known - of_device}
        print(*setup, [sum(t.leaves() for _, t in families) for families in trained[at]], len(recorded[at]), flush=True)
    with open(rule_path, "w") as out:
        table.write_rule(out, trained)
    with open(table_path, "w") as out:
        table.write_table(out, recorded)
    replace_rows(os.path.join(tests, "convolutions.tsv"), seen, 1)
    replace_rows(os.path.join(tests, "convolutions_unseen.tsv"), unseen, 2)


if __name__ == "__main__":
    main()
