"""What was alive at the peak, from PyTorch's memory snapshot: its record of allocations and frees is run backwards from
the blocks that are alive now. Plain data in, plain data out: nothing here needs torch.

A block counts with its requested size rounded up to 512 bytes, the allocator's unit. PyTorch's own figure can be
higher, where a block was not split and its end lies unused; the difference is reported as such.
"""

import os

HOOK = os.path.dirname(os.path.abspath(__file__))
UNIT = 512  # bytes: kMinBlockSize of c10/cuda/CUDACachingAllocator.cpp


def rounded(size):
    return max(UNIT, -(-size // UNIT) * UNIT)


class Block:
    """`born` and `freed`: positions in the entries; None where it was there before them, or is there still."""

    __slots__ = ("address", "size", "frames", "born", "freed")

    def __init__(self, address, size, frames, born=None, freed=None):
        self.address = address
        self.size = size
        self.frames = frames
        self.born = born
        self.freed = freed


def blocks_now(snapshot, device):
    """{address: Block} of what is allocated now on `device`."""
    now = {}
    for segment in snapshot["segments"]:
        if segment["device"] != device:
            continue
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                size = rounded(block.get("requested_size", block["size"]))
                now[block.get("address", address)] = Block(block.get("address", address), size, _frames(block))
            address += block["size"]
    return now


def pool_bytes(snapshot, device):
    """Bytes of `device` in the pools of CUDA graphs (and of torch.cuda.MemPool) that are reserved and not allocated."""
    segments = [segment for segment in snapshot["segments"] if segment["device"] == device]
    return sum(
        segment["total_size"] - segment["allocated_size"]
        for segment in segments
        if any(segment.get("segment_pool_id", (0, 0)))
    )


def entries_of(snapshot, device):
    """The record of `device`, allocations and frees only, oldest first."""
    traces = snapshot.get("device_traces", [])
    if device >= len(traces):
        return []
    return [entry for entry in traces[device] if entry["action"] in ("alloc", "free_requested")]


def last_entries(entries, allocations):
    """The entries from the one that makes the last `allocations` allocations on; all where there are fewer."""
    for position in range(len(entries) - 1, -1, -1):
        if entries[position]["action"] == "alloc":
            allocations -= 1
            if allocations < 0:
                return entries[position + 1 :]
    return entries


def highest(entries, now):
    """(bytes, position): the most that was alive, and after how many entries; the first time of several."""
    total = sum(block.size for block in now.values())
    best, position = total, len(entries)
    for index in range(len(entries) - 1, -1, -1):
        entry = entries[index]
        total += rounded(entry["size"]) * (-1 if entry["action"] == "alloc" else 1)
        if total >= best:
            best, position = total, index
    return best, position


def alive_at(entries, now, position):
    """The blocks that were alive after `position` entries."""
    alive = dict(now)
    for index in range(len(entries) - 1, position - 1, -1):
        entry = entries[index]
        if entry["action"] == "alloc":
            alive.pop(entry["addr"], None)
        else:
            alive[entry["addr"]] = Block(entry["addr"], rounded(entry["size"]), _frames(entry), None, index)
    for index in range(position):
        entry = entries[index]
        block = alive.get(entry["addr"])
        if block is not None and entry["action"] == "alloc":
            block.born = index  # the last one before `position` is the block's own
            block.frames = _frames(entry) or block.frames
    return list(alive.values())


def _frames(recorded):
    return recorded.get("frames") or []  # a record without stacks has none


# --- by category


def owners(blocks, marks):
    """{address of a block: category}. `marks`: (address within the block, category), the first one that fits wins."""
    import bisect

    starts = sorted((block.address, block.size) for block in blocks)
    addresses = [address for address, _ in starts]
    found = {}
    for address, category in marks:
        index = bisect.bisect_right(addresses, address) - 1
        if index >= 0 and address < starts[index][0] + starts[index][1]:
            found.setdefault(starts[index][0], category)
    return found


def categories(blocks, marks_now, marks_before, built_by_module):
    """Bytes by what holds them. `marks_now` tell of blocks that are alive now, `marks_before` of those that were alive
    when the record began and have gone since; what neither knows was an activation or a temporary, unless it was made
    where modules make or move their parameters (`built_by_module`)."""
    still = owners([block for block in blocks if block.freed is None], marks_now)
    gone = owners([block for block in blocks if block.freed is not None and block.born is None], marks_before)
    total = {}
    for block in blocks:
        category = (still if block.freed is None else gone if block.born is None else {}).get(block.address)
        if category is None:
            category = "parameters" if built_by_module(block.frames) else "activations and temporaries"
        total[category] = total.get(category, 0) + block.size
    return total


# --- by line

BACKWARD = "(backward pass)"  # autograd's threads have no Python frames


class Places:
    """Which frames are the user's, given where torch and Python's own library lie. `source_frames(frame)`: the frames
    of the source, innermost first, that one of generated code stands for; None where it is of no generated code."""

    def __init__(self, torch_directory, library_directory, source_frames=lambda frame: None):
        self.torch = torch_directory
        self.library = library_directory
        self.source_frames = source_frames

    def ours(self, name):
        """Whether a file is torch's, Python's own or the hook's, no line that somebody would change."""
        if name.startswith(self.torch) or name.startswith("<"):
            return True
        if os.path.dirname(name) == HOOK:  # it calls torch's functions for the script
            return True
        return name.startswith(self.library) and "-packages" not in name[len(self.library) :]

    def line(self, frames):
        """(file, line, function): the innermost frame outside of torch; where all are torch's, that of `python -c`, or the
        innermost one."""
        for frame in frames:
            source = self.source_frames(frame)
            for found in (frame,) if source is None else source:
                if not self.ours(found["filename"]):
                    return found["filename"], found["line"], found["name"]
        if any(self.source_frames(frame) is not None for frame in frames):
            return "", 0, BACKWARD  # a compiled one: autograd calls it
        command = [frame for frame in frames if frame["filename"] in ("<string>", "<stdin>")]
        shown = [frame for frame in frames if os.path.dirname(frame["filename"]) != HOOK]
        for frame in (command or shown)[:1]:
            return frame["filename"], frame["line"], frame["name"]
        return "", 0, BACKWARD

    def built_by_module(self, frames):
        """Whether torch.nn.Module made or moved something here."""
        for frame in frames:
            name = frame["filename"]
            if name.startswith(self.torch) and "/nn/modules/" in name:
                if frame["name"] == "_apply" or frame["name"] == "__init__":
                    return True
        return False


def lines(blocks, places, most=20):
    """The lines with the most bytes: {"file", "line", "function", "code", "bytes", "blocks", "inner"}. `inner`: the
    innermost frame of the line's largest block, where it is another one."""
    import linecache

    found = {}
    for block in blocks:
        key = places.line(block.frames)
        line = found.setdefault(key, {"bytes": 0, "blocks": 0, "largest": block})
        line["bytes"] += block.size
        line["blocks"] += 1
        if block.size > line["largest"].size:
            line["largest"] = block
    result = []
    for (name, number, function), line in sorted(found.items(), key=lambda item: -item[1]["bytes"])[:most]:
        text = {"file": name, "line": number, "function": function}
        text["code"] = linecache.getline(name, number).strip() if name else ""
        text["bytes"] = line["bytes"]
        text["blocks"] = line["blocks"]
        inner = line["largest"].frames[:1]
        if inner and (inner[0]["filename"], inner[0]["line"]) != (name, number):
            text["inner"] = "%s:%d %s" % (inner[0]["filename"], inner[0]["line"], inner[0]["name"])
        result.append(text)
    return result
