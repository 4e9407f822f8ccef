"""Where in the model's own code a call was made or an error was raised, and what that code says there: frames of torch
and of this package are passed over."""
from __future__ import annotations

import inspect
import linecache
import os
import re
import sys
from types import FrameType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import torch
from torch import nn

from gpuplan.values import Type, Value


def layer_source(at: str, path: str, layer: str) -> str:
    return f"module {path} ({layer})" if at == "the model" else at


OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


def is_own(file: str) -> bool:
    """Whether a file is of this package, or of what gpuplan shadow puts around each call."""
    return os.path.abspath(file).startswith(OWN_FOLDER) or os.path.basename(file).startswith("gpuplan_shadow_")


def caller() -> Optional[FrameType]:
    """The nearest one that is not torch's or this package's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(TORCH_FOLDER) and not is_own(name):
            return frame
        if frame.f_code.co_name == "run_recorded" and is_own(name):
            break  # who exports has called nothing of this
        frame = frame.f_back
    return None


def source_line() -> str:
    frame = caller()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "the model"


WITH_TYPE = frozenset("softmax log_softmax mean sum cumsum".split())  # which may be given a type to compute in
CONVERSIONS = frozenset("to type type_as float half bfloat16 double".split())
CONVERSION = re.compile(r"\.(?:to|type)\(([^()]*)\)")
NAMED_TYPE = re.compile(r"torch\.(float32|float|float64|double|float16|half|bfloat16)")


ASKS_FOR_TYPE = re.compile(r"\.dtype\s*(?:==|!=|is|in|not in)\s.*torch\.")
HALVES = {"fp16": re.compile(r"torch\.(?:float16|half)\b"), "bf16": re.compile(r"torch\.bfloat16\b")}


def half_only(frame: FrameType) -> List[Tuple[str, str]]:
    """Where a frame asks whether a tensor is of half precision, and which: the run, in fp32, does not take that branch."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    return [(half, place) for half, name in HALVES.items() if ASKS_FOR_TYPE.search(line) and name.search(line)]


def running_call(frame: FrameType) -> str:
    """The source of the call that a frame makes; before Python 3.11 that of its line."""
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno, frame.f_globals)
    if not hasattr(frame.f_code, "co_positions"):
        return line
    first, last, begin, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return line.encode()[begin:end].decode(errors="replace") if first == last else line


def lines_of_call(frame: FrameType) -> range:
    """Of the call that a frame makes; before Python 3.11 the one that runs."""
    if not hasattr(frame.f_code, "co_positions"):
        return range(frame.f_lineno, frame.f_lineno + 1)
    first, last, _, _ = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return range(first, last + 1)


def text_of(frame: FrameType, lines: Iterable[int]) -> str:
    return "".join(linecache.getline(frame.f_code.co_filename, n, frame.f_globals) for n in lines)


def names_the_host() -> bool:
    """Whether the call that runs has device="cpu" written out; y.device is another one on a GPU."""
    frame = caller()
    return frame is not None and re.search(r"\bdevice\s*=\s*(?:torch\.device\()?[\"']cpu", text_of(frame, lines_of_call(frame))) is not None


def asks_for_device() -> bool:
    """Whether the line that runs tells devices apart: x.device.type == "cuda", "cpu" or "meta"."""
    frame = caller()
    return frame is not None and re.search(r"[\"'](?:meta|cuda|cpu)\b", text_of(frame, [frame.f_lineno])) is not None


def type_in_source(types_read: Dict[Tuple[Any, int], Value], values: Dict[int, Value]) -> Optional[Type]:
    """Of the conversion that runs: x.to(torch.float32), x.to(y.dtype), or x.to(t) after t = y.dtype or t = torch.float32."""
    frame = caller()
    if frame is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return None
    found = CONVERSION.findall(running_call(frame))
    if len(set(found)) != 1 and not hasattr(frame.f_code, "co_positions"):
        return None
    for argument in (found[-1] if found else "").split(","):
        name = re.sub(r"^\s*dtype\s*=|\s", "", argument)
        if NAMED_TYPE.fullmatch(name):
            return Type()
        if name.endswith(".dtype"):
            tensor = named_in(frame, name.split(".")[:-1])
            return Type(values[id(tensor)]) if id(tensor) in values else None
        if name.isidentifier():
            return assigned_type(frame, name, types_read)
    return None


def type_of_new(like: Optional[Value], types_read: Dict[Tuple[Any, int], Value]) -> Optional[Type]:
    """Of a tensor that a call makes, in floating point: torch.zeros(4, dtype=x.dtype), after t = x.dtype with dtype=t, or x.new_zeros(4),
    where `like` is x."""
    frame = caller()
    if frame is None or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return None
    lines = lines_of_call(frame)
    given = re.search(r"\bdtype\s*=\s*([\w.]+)", text_of(frame, lines))
    if given is None:
        found = None if like is None else Type(like)
    elif given[1].endswith(".dtype"):
        read = [types_read[frame.f_code, n] for n in lines if (frame.f_code, n) in types_read]
        found = Type(read[-1]) if read else None
    else:
        found = assigned_type(frame, given[1], types_read) if given[1].isidentifier() else None
    return found if found and found.like and found.like.weight is None and found.like.dtype.is_floating_point else None


def names_a_type(types_read: Dict[Tuple[Any, int], Value]) -> bool:
    """Whether the call that runs has a type written out, as softmax(x, -1, torch.float32) or after t = torch.float32 with
    dtype=t; y.dtype is another one in another precision."""
    frame = caller()
    if frame is None:
        return False
    text = running_call(frame)
    name = re.search(r"\bdtype\s*=\s*(\w+)\s*[,)]", text)
    if name is not None and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return assigned_type(frame, name.group(1), types_read) == Type()
    return NAMED_TYPE.search(text) is not None


def assigned_type(frame: FrameType, name: str, types_read: Dict[Tuple[Any, int], Value]) -> Optional[Type]:
    """What the function that runs gave a name to before this line, where that is a type."""
    code = frame.f_code
    assigns = re.compile(rf"^[\w\s,]*\b{name}\b[\w\s,]*=(?!=)(.*)")
    for number in range(frame.f_lineno - 1, code.co_firstlineno, -1):
        found = assigns.match(linecache.getline(code.co_filename, number, frame.f_globals))
        if found and (code, number) in types_read:
            return Type(types_read[code, number])
        if found:
            return Type() if NAMED_TYPE.fullmatch(found.group(1).strip()) else None
    return None


def named_in(frame: FrameType, path: Sequence[str]) -> Any:
    """What a path of names is in a frame."""
    names = frame.f_locals
    thing = names.get(path[0])
    if sys.version_info < (3, 13):
        names.clear()  # a copy, which the frame would keep: tensors would live as long as the function
    for name in path[1:]:
        thing = getattr(thing, name, None)
    return thing


def source_of(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except (OSError, TypeError):
        return ""


def first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return text if len(text) <= 300 else text[:297] + "..."


def failing_line(error: Exception, nowhere: str = "the model") -> str:
    """The last line of the traceback that is not torch's or this package's."""
    found, trace = nowhere, error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith(TORCH_FOLDER) and not is_own(name):
            found = f"{name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def failing_module(model: nn.Module, error: Exception) -> str:
    """The innermost module whose forward raised it, by its name in the model."""
    names = {id(module): name for name, module in model.named_modules() if name}
    found, trace = "the model", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_locals.get("self")
        if id(module) in names:
            found = f"{names[id(module)]} ({type(module).__name__})"
        trace = trace.tb_next
    return found
