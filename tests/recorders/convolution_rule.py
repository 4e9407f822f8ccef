"""The rule for convolutions without a record: decision trees over their sizes, trained on recordings of convolutions.py (needs numpy).

A leaf names a form: copies of the input, the output and the filter (with the channels as they are or padded for tensor cores), partial
filters in fp32 and bytes. A tree is grown greedily on the error of the form as a share of the tensors, and pruned by a price a leaf.
"""
import math

import numpy as np

COLUMNS = "n c h w k r s p q stride_h stride_w pad_h pad_w dilation_h dilation_w groups".split()
BYTES = {"fp32": 4, "fp16": 2, "bf16": 2}
PADDING = {"fp32": 4, "fp16": 8, "bf16": 8}
PRICE = 3.0      # of a leaf, in convolutions that are wrong altogether
SMALLEST = 5     # convolutions of a leaf
DEEPEST = 16
BINS = 160       # thresholds tried a feature
FORMS = 28       # forms tried a tree

# Forms that occur: copies of x and y (more than one of them: partial results), of the filter, and partial filters in fp32.
FILTERS = [(0, 0), (1, 0), (2, 0)] + [(0, i) for i in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 36, 48, 64, 96, 128, 256)] + [
    (1, i) for i in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)]
RESTS = [0, 16, 128, 131, 147, 1664, 12000, 36880, 66000, 131300, 262350, 295100, 524495, 800000, 1048771, 2097400, 2359547, 4194500, 8390000,
         16800000, 50360000]


def candidates():
    """(padded, inputs, outputs, filters, partial filters, bytes)"""
    for x, y in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (2, 0), (1, 2), (2, 1), (1, 3), (3, 1)]:
        for filters, partial in FILTERS:
            for rest in RESTS:
                if partial and rest > 300 or max(x, y) > 1 and (partial or filters > 1):
                    continue
                yield 0, x, y, filters, partial, rest
                if x or y or filters or partial:
                    yield 1, x, y, filters, partial, rest


CANDIDATES = list(candidates())


def up(v, step):
    return -(-v // step) * step


def by_name(rows):
    return {name: rows[:, i] for i, name in enumerate(COLUMNS)}


def native(dtype, layout, rows):
    """Depthwise convolutions that PyTorch does without cuDNN, as estimator/operators/cudnn_workspace.cpp has it."""
    v = by_name(rows)
    depthwise = (v["groups"] == v["c"]) & (v["groups"] > 1) & (v["k"] % v["c"] == 0)
    if layout == "nhwc" or dtype != "fp16":
        return depthwise & (layout == "nchw")
    n, c, w, s, stride = v["n"], v["c"], v["w"], v["s"], v["stride_w"]
    small = (n == 1) & ((s > 1) | (w <= 28)) | (n > 1) & np.where(s == 1, (n <= 16) & (c >= 128) & (w <= 7), (c >= 512) | (c >= 256) & (w >= 28))
    square = (v["r"] == s) & ((s == 1) | (s == 3) | (s == 5)) & (w >= 7) & ((stride == 1) | (stride == 2) & small)
    cudnn = (c >= 32) & (v["dilation_h"] * v["dilation_w"] == 1) & ((v["h"] == 1) & (stride == 1) | (v["stride_h"] == stride) & square)
    return depthwise & ~cudnn


def sizes(rows, dtype):
    """Bytes of x, y and the filter, as they are and padded."""
    v, width, step = by_name(rows), BYTES[dtype], PADDING[dtype]
    c, k, of_group = v["c"], v["k"], v["c"] // v["groups"]
    x, y, taps = v["n"] * v["h"] * v["w"] * width, v["n"] * v["p"] * v["q"] * width, v["r"] * v["s"] * width
    return x * c, y * k, taps * k * of_group, x * up(c, step), y * up(k, step), taps * up(k, step) * up(of_group, step)


def form_bytes(form, of, dtype):
    padded, inputs, outputs, filters, partial, rest = form
    x, y, f = of[3:] if padded else of[:3]
    return inputs * x + outputs * y + (filters + partial * (4 // BYTES[dtype])) * f + rest


# The order of Feature in estimator/operators/cudnn_workspace_rule.h, which says what they are.
def features(rows):
    i = by_name(rows)
    v = {name: column.astype(np.float64) for name, column in i.items()}

    def alignment(counts):
        return np.minimum(counts & -counts, 32).astype(np.float64)

    def fill(counts, tile):
        return counts / up(counts, tile)

    c, k, taps = v["c"] / v["groups"], v["k"] / v["groups"], v["r"] * v["s"]
    image, output = v["h"] * v["w"], v["p"] * v["q"]
    return {
        "batch": v["n"], "channels": v["c"], "filters": v["k"], "group_channels": c, "group_filters": k, "width": v["w"], "output_width": v["q"],
        "image": image, "output": output, "taps": taps, "stride": v["stride_h"] * v["stride_w"], "dilation": v["dilation_h"] * v["dilation_w"],
        "padding": v["pad_h"] + v["pad_w"], "channel_alignment": alignment(i["c"]), "filter_alignment": alignment(i["k"]),
        "image_alignment": alignment(i["h"] * i["w"]), "output_alignment": alignment(i["p"] * i["q"]), "image_fill": fill(i["h"] * i["w"], 256),
        "output_fill": fill(i["p"] * i["q"], 128), "channel_fill": fill(i["c"], 64), "filter_fill": fill(i["k"], 64), "rows": v["n"] * output,
        "input_rows": v["n"] * image, "depth": c * taps, "backward_depth": k * taps, "weights": v["k"] * c * taps,
        "input_elements": v["n"] * v["c"] * image, "output_elements": v["n"] * v["k"] * output, "widening": v["k"] / v["c"],
        "multiply_adds": v["n"] * output * v["k"] * c * taps,
    }


FEATURES = list(features(np.ones((1, 16), np.int64)))
def family(rows):
    """0 depthwise, 1 grouped, 2 few channels (images), 3 pointwise, 4 others: engines differ, each has its own tree."""
    v = by_name(rows)
    dense = np.where(v["c"] <= 8, 2, np.where(v["r"] * v["s"] == 1, 3, 4))
    return np.where(v["groups"] == 1, dense, np.where(v["groups"] == v["c"], 0, 1))


FAMILIES = 5


def error(predicted, recorded, of):
    """0 to 1: half of it for 5 % of the tensors, 0.4 more for half of them, 0.1 for a byte."""
    share = np.abs(predicted - recorded) / ((of[0] + of[1] + of[2]).astype(np.float64) + 2e6)
    return 0.5 * np.minimum(1, share / 0.05) + 0.4 * np.minimum(1, share / 0.5) + 0.1 * (predicted != recorded)


def choose_forms(of, recorded, dtype):
    """Greedily, those that together explain a sample best."""
    sample = np.random.default_rng(1).permutation(len(recorded))[:3000]
    part = [b[sample] for b in of]
    errors = np.stack([error(form_bytes(f, part, dtype), recorded[sample], part).astype(np.float32) for f in CANDIDATES])
    best, chosen, alive = np.ones(len(sample), np.float32), [], np.arange(len(CANDIDATES))
    least = max(1.5, len(sample) * 0.0015)
    while len(chosen) < FORMS:
        gain = np.maximum(best[None, :] - errors[alive], 0).sum(1)
        i = int(gain.argmax())
        if gain[i] < least:
            break
        chosen.append(alive[i])
        best = np.minimum(best, errors[alive[i]])
        alive = alive[gain >= least]
    return [CANDIDATES[i] for i in chosen] or [(0, 0, 0, 0, 0, 0)]


def between(low, high):
    """The shortest number in (low, high]."""
    middle = (low * high) ** 0.5
    for digits in range(1, 9):
        step = 10.0 ** (math.floor(math.log10(middle)) - digits + 1)
        value = round(middle / step) * step
        if low < value <= high:
            return float("%.8g" % value)
    return float(high)


def thresholds(column):
    values = np.unique(column)
    if len(values) > BINS:
        at = np.unique(np.searchsorted(values, np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])))
        at = at[at > 0]
    else:
        at = np.arange(1, len(values))
    return np.array(sorted({float(np.float32(between(max(values[i - 1], 1e-9), values[i]))) for i in at}))


class Tree:
    """A leaf (form) or a test (feature < threshold: low, else high)."""

    def __init__(self, errors):
        total = errors.sum(1)
        self.form, self.feature = int(total.argmin()), None
        self.error = float(total[self.form])

    def leaves(self):
        return 1 if self.feature is None else self.low.leaves() + self.high.leaves()


def best_split(cuts, bins, errors):
    """(error, feature, cut index) or None"""
    total, best, count = errors.sum(1), None, errors.shape[1]
    for f, cut in enumerate(cuts):
        sizes_below = np.cumsum(np.bincount(bins[:, f], minlength=len(cut) + 1))[:-1]
        possible = np.flatnonzero((sizes_below >= SMALLEST) & (count - sizes_below >= SMALLEST))
        if not len(possible):
            continue
        below = np.cumsum(errors[:, np.argsort(bins[:, f], kind="stable")], axis=1)[:, sizes_below[possible] - 1]
        split = below.min(0) + (total[:, None] - below).min(0)
        i = int(split.argmin())
        if best is None or split[i] < best[0] - 1e-9:
            best = float(split[i]), f, int(possible[i])
    return best


def grow(cuts, bins, errors, depth=0):
    tree = Tree(errors)
    if depth == DEEPEST or errors.shape[1] < 2 * SMALLEST or tree.error < PRICE:
        return tree
    split = best_split(cuts, bins, errors)
    if split is None:
        return tree
    _, f, i = split
    below = bins[:, f] <= i
    low, high = grow(cuts, bins[below], errors[:, below], depth + 1), grow(cuts, bins[~below], errors[:, ~below], depth + 1)
    if tree.error - low.error - high.error < PRICE * (low.leaves() + high.leaves() - 1):
        return tree
    tree.feature, tree.threshold, tree.low, tree.high = FEATURES[f], float(cuts[f][i]), low, high
    tree.error = low.error + high.error
    return tree


def train(rows, recorded, dtype):
    """[(forms, tree)] for each family."""
    result, families = [], family(rows)
    for i in range(FAMILIES):
        mine = families == i
        if not mine.any():
            result.append(([(0, 0, 0, 0, 0, 0)], Tree(np.zeros((1, 1)))))
            continue
        of = sizes(rows[mine], dtype)
        forms = choose_forms(of, recorded[mine], dtype)
        errors = np.stack([error(form_bytes(f, of, dtype), recorded[mine], of) for f in forms])
        table = np.stack(list(features(rows[mine]).values()), 1)
        cuts = [thresholds(table[:, f]) for f in range(table.shape[1])]
        bins = np.stack([np.searchsorted(cut, table[:, f], side="right") for f, cut in enumerate(cuts)], 1)
        result.append((forms, grow(cuts, bins, errors)))
    return result


def predict(trained, rows, dtype):
    out, families, table = np.zeros(len(rows), np.int64), family(rows), features(rows)
    for i, (forms, tree) in enumerate(trained):
        def descend(node, at):
            if not len(at):
                return
            if node.feature is None:
                out[at] = form_bytes(forms[node.form], sizes(rows[at], dtype), dtype)
                return
            below = table[node.feature][at] < node.threshold
            descend(node.low, at[below])
            descend(node.high, at[~below])

        descend(tree, np.flatnonzero(families == i))
    return out
