"""The words in which a spec says what an operator allocates (layers/recorded_operator.cpp), made of what it did at several batches."""
from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from gpuplan.errors import Unsupported

BATCHES = (2, 3, 5, 7, 16, 64)  # of the first two amounts are made, which the others confirm; the last ones as far as they fit
FEWEST = 4
MOST_ACTIONS = 200  # of one operator


class Action(NamedTuple):
    """A word of a recording at one batch."""

    word: str  # y0=, s, +, -1, d0, d0=g0, macs=
    dtype: str = ""
    shape: Tuple[int, ...] = ()
    size: Optional[int] = None  # bytes, or multiply-adds; of y0= its storage's, where that is larger


class Amount(NamedTuple):
    constant: int
    per_sample: int

    def __str__(self) -> str:
        parts = [str(self.constant)] if self.constant or not self.per_sample else []
        return "+".join(parts + ([f"{self.per_sample if self.per_sample != 1 else ''}b"] if self.per_sample else []))


class Table(NamedTuple):
    """Scratch that is neither: of an algorithm that the batch decides on."""

    at: Tuple[Tuple[int, int], ...]  # batch, and bytes

    def __str__(self) -> str:
        return ",".join(f"{batch}:{size}" for batch, size in self.at)


def amount(numbers: Sequence[int]) -> Amount:
    per_sample = numbers[1] - numbers[0]
    of_all = Amount(numbers[0] - BATCHES[0] * per_sample, per_sample)
    if min(of_all) < 0 or any(of_all.constant + per_sample * batch != n for batch, n in zip(BATCHES, numbers)):
        raise Unsupported(f"at batch {', '.join(map(str, BATCHES))} it takes {', '.join(map(str, numbers))}, neither a constant nor a multiple of the batch")
    return of_all


def scratch_amount(numbers: Sequence[int]) -> Union[Amount, Table]:
    try:
        return amount(numbers)
    except Unsupported:
        return Table(tuple(zip(BATCHES, numbers)))


class Word(NamedTuple):
    """An Action of every batch."""

    word: str
    dtype: str = ""
    shape: Tuple[Amount, ...] = ()
    size: Union[Amount, Table, None] = None


class Scratch(NamedTuple):
    """What is allocated and freed: behind so many of the other actions."""

    allocated: int
    freed: int
    size: int


def is_scratch(action: Action) -> bool:
    return action.word[0] in "+-"


def scratch_of(actions: Sequence[Action]) -> List[Scratch]:
    others = 0
    allocated: List[Tuple[int, int]] = []
    freed: Dict[int, int] = {}
    for action in actions:
        if action.word == "+":
            allocated.append((others, action.size or 0))
        elif is_scratch(action):
            freed[int(action.word[1:]) - 1] = others
        else:
            others += 1
    return [Scratch(at, freed.get(k, others), size) for k, (at, size) in enumerate(allocated)]


def sizes_in(most: Sequence[Scratch], fewer: Sequence[Scratch]) -> List[int]:
    """Of each scratch of the batch that has most, how much another batch takes there: none where it has no such."""
    sizes = [0] * len(most)
    at = 0
    for scratch in fewer:
        while at < len(most) and most[at][:2] != scratch[:2]:
            at += 1
        if at == len(most):
            raise Unsupported("it allocates in another order at other batches")
        sizes[at] = scratch.size
        at += 1
    return sizes


def words_of(of_batches: Sequence[Sequence[Action]]) -> List[Word]:
    """The actions of all batches as those of the batch that has most, with amounts for each."""
    others = [[a for a in actions if not is_scratch(a)] for actions in of_batches]
    if len({tuple((a.word, a.dtype, len(a.shape), a.size is None) for a in of_batch) for of_batch in others}) > 1:
        raise Unsupported("it allocates in another order at other batches")
    scratch = [scratch_of(actions) for actions in of_batches]
    most = max(range(len(scratch)), key=lambda k: len(scratch[k]))
    sizes = list(zip(*(sizes_in(scratch[most], of_batch) for of_batch in scratch)))
    left, words = list(zip(*others)), []
    for action in of_batches[most]:
        if action.word == "+":
            words.append(Word("+", size=scratch_amount(sizes[sum(w.word == "+" for w in words)])))
        elif is_scratch(action):
            words.append(Word(action.word))
        else:
            words.append(word_of(left.pop(0)))
    return words


def word_of(same: Sequence[Action]) -> Word:
    sizes = [a.size for a in same if a.size is not None]
    return Word(same[0].word, same[0].dtype, tuple(amount(numbers) for numbers in zip(*(a.shape for a in same))), amount(sizes) if sizes else None)


Directions = Dict[str, List[Word]]  # `forward`, and `backward` where there is one


class Answer(NamedTuple):
    """What a simulated GPU said of a call."""

    recordings: Dict[str, Optional[Directions]]  # by what the layer has before the names of its arguments; None: no such operator
    autocast: str  # which of its lists it is in, as the layer has them


def answer_read(answer: Sequence[Any]) -> Answer:
    """From JSON, which has no NamedTuples."""
    def size(read: Any) -> Union[Amount, Table, None]:
        return None if read is None else Amount(*read) if len(read) == 2 else Table(tuple((batch, n) for batch, n in read[0]))

    def words(directions: Any) -> Any:
        return directions and {name: [Word(word, dtype, tuple(Amount(*n) for n in shape), size(read)) for word, dtype, shape, read in listed]
                               for name, listed in directions.items()}

    return Answer({name: words(directions) for name, directions in answer[0].items()}, answer[1])


# Where a recording is no argument, the layer takes that of these names.
INSTEAD = {"half_": "", "amp_": "", "amp_half_": "half_", "mixed_": "half_"}


def arguments(answer: Answer, without: Answer) -> List[Tuple[str, str]]:
    """Of the layer. without: without cuDNN's workspaces."""
    named = {name: directions and {k: with_workspaces_named(words, (without.recordings.get(name) or directions)[k]) for k, words in directions.items()}
             for name, directions in answer.recordings.items()}
    most = max(len(words) for directions in named.values() for words in (directions or {}).values())
    if most > MOST_ACTIONS:
        raise Unsupported(f"it allocates and frees {most} times")
    full, half = named[""] or {}, named["half_"]
    together = {k: text_of(full[k], half[k]) if half else None for k in full}
    written = {k: together[k] or text_of(full[k], full[k]) or "" for k in full}
    for name, directions in named.items():
        if directions is None:
            written[name + "forward"] = "refused"
        elif name:
            instead = named[INSTEAD[name]] or {}
            written.update({name + k: text_of(words, words) or "" for k, words in directions.items()
                            if words != instead.get(k) and not (name == "half_" and together[k])})
    return [*written.items()] + ([("autocast", answer.autocast)] if answer.autocast != "none" else [])


def with_workspaces_named(words: Sequence[Word], without: Sequence[Word]) -> List[Word]:
    """`c+` is what the second recording lacks; the words as they are where they differ in anything else."""
    left, named = list(without), []
    number: Dict[str, int] = {}  # of what both have, in the second one
    for word in words:
        expected = [word]
        if word.word == "+" and left[:1] != [word]:
            expected, word = [], word._replace(word="c+")
        elif word.word == "+":
            number[str(1 + sum(w.word in ("+", "c+") for w in named))] = 1 + sum(w.word == "+" for w in named)
        elif word.word[0] == "-":
            expected = [word._replace(word=f"-{number[word.word[1:]]}")] if word.word[1:] in number else []
        if left[:len(expected)] != expected:
            return list(words)
        left = left[len(expected):]
        named.append(word)
    return named if not left else list(words)


def text_of(words: Sequence[Word], of_half: Sequence[Word]) -> Optional[str]:
    """For both types, where the second is like the first one in smaller elements; None where it is not."""
    if [w.word for w in words] != [w.word for w in of_half]:
        return None
    written = [of_both(*pair) for pair in zip(words, of_half)]
    return None if None in written else " ".join(filter(None, written))


def of_both(full: Word, half: Word) -> Optional[str]:
    size = size_of_both(full.size, half.size)
    if size is None or full.shape != half.shape:
        return None
    if not full.word.endswith("=") or full.word == "macs=":
        return full.word + size
    dtype = "float32" if (full.dtype, half.dtype) == ("float", "float32") else full.dtype
    sizes = f"{dtype}[{','.join(map(str, full.shape))}]"
    return full.word + sizes + (f"/{size}" if size else "") if dtype in (half.dtype, "float32") else None


def size_of_both(full: Union[Amount, Table, None], half: Union[Amount, Table, None]) -> Optional[str]:
    """The same in bytes, or the same in elements; None where it is neither."""
    if full == half:
        return "" if full is None else str(full)
    if not isinstance(full, Amount) or not isinstance(half, Amount) or any(n % 4 or n != 2 * m for n, m in zip(full, half)):
        return None
    return f"{Amount(full.constant // 4, full.per_sample // 4)}e"
