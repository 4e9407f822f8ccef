"""Adds recordings to the table, the rule as it is: python convolution_table_add.py RECORDINGS DIRECTORY (needs numpy)

RECORDINGS holds files named GPU.LAYOUT.DTYPE of convolutions.py, of batches of powers of two; DIRECTORY is estimator/operators, whose
cudnn_workspace_rule_table.cpp is read and whose cudnn_workspace_table.cpp is written again. Shapes that a setup of the table has stay as
they are, since they may be of more batches.
"""
import os
import re
import sys

import convolution_rule as rule
import convolution_table as table


class Node:
    """As convolution_rule.Tree, read back."""

    def __init__(self, nodes, at):
        fields = nodes[at]
        self.feature, self.form = None, int(fields[0])
        if len(fields) > 1:
            self.feature, self.threshold = rule.FEATURES[int(fields[1]) - 1], float(fields[2].rstrip("f"))
            self.low, self.high = Node(nodes, at + 1), Node(nodes, at + int(fields[0]))


def braces(text):
    return [line.split(",") for line in re.findall(r"\{([^{}]*)\}", text)]


def section(text, name):
    return text.split(name, 1)[1].split("= {", 1)[1].split("\n}", 1)[0]


def read_rule(path):
    """For each setup and pass [(forms, tree)] of the families."""
    text = open(path).read()
    forms = [(int(f[0] == "true"), *map(int, f[1:])) for f in braces(section(text, "kForms"))]
    nodes = braces(section(text, "kNodes"))
    roots = [[int(r) for r in line] for line in braces(section(text, "kRoots"))]
    passes = [[(forms, Node(nodes, root)) for root in families] for families in roots]
    return [passes[i:i + 3] for i in range(0, len(passes), 3)]


def read_table(path):
    """For each setup {shape: codes}."""
    text = open(path).read()
    shapes = [tuple(map(int, s)) for s in braces(section(text, "kShapes"))]
    tables = []
    for setup in table.SETUPS:
        body = text.split("// %s %s %s\n" % setup, 1)[1].split("\n}", 1)[0]
        tables.append({shapes[int(at)]: codes for at, codes in re.findall(r'\{(\d+), "([^"]*)"\}', body)})
    return tables


def main():
    trained = read_rule(os.path.join(sys.argv[2], "cudnn_workspace_rule_table.cpp"))
    path = os.path.join(sys.argv[2], "cudnn_workspace_table.cpp")
    tables = read_table(path)
    for setup, passes, known in zip(table.SETUPS, trained, tables):
        recorded = os.path.join(sys.argv[1], "%s.%s.%s" % (setup[0], setup[2], setup[1]))
        if os.path.exists(recorded):
            known.update({s: c for s, c in table.codes(setup, table.read(recorded), passes).items() if s not in known})
    with open(path, "w") as out:
        table.write_table(out, tables)


if __name__ == "__main__":
    main()
