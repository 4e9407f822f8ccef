"""Distributed scripts under the shadow runtime.

With real peers (--gpus N) nothing but the object collectives needs help, see gpuplan_shadow_objects.py.

With imagined ones (--world N --rank R) an unmodified script believes that it is rank R of N, and nobody is waited for.
ProcessGroupNCCL stays PyTorch's own, over the runtime's NCCL, so that its streams, its events and the time for which it
keeps tensors are the real ones, which a fake process group has none of. Only what would talk to another process is
replaced: the store through which ranks find each other, and Gloo, whose place PyTorch's fake backend takes.
"""

import ctypes
import functools
import inspect
import os
import sys
import threading

import gpuplan_shadow_objects
from gpuplan_shadow_objects import replace

_kept = []  # stores that C++ holds without their Python half


def install(settings):
    """After `import torch`, before the script: settings.peers is 1 (real) or 2 (imagined)."""
    import torch

    if not torch.distributed.is_available():
        return
    import torch.distributed.distributed_c10d

    gpuplan_shadow_objects.install(torch)
    if settings.peers == 2:
        _set_environment(settings)
        _meet_nobody(torch, settings)


def _is_launcher():
    """Whether this process, or the one that started it, is torchrun."""
    modules = ("torch.distributed.run", "torch.distributed.launch")
    command = getattr(sys, "orig_argv", [])
    named = os.path.basename(sys.argv[0] if getattr(sys, "argv", None) else "") == "torchrun"
    return named or any(module in command for module in modules) or "TORCHELASTIC_RUN_ID" in os.environ


def _set_environment(settings):
    if _is_launcher():
        line = "gpuplan shadow: --world stands for every rank in one process: name the script, not torchrun"
        print(line, file=sys.stderr)
        raise SystemExit(4)
    # One process has one GPU, so that its local rank is 0 whatever its rank is.
    own = {"RANK": settings.rank, "WORLD_SIZE": settings.world, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 1}
    own.update({"GROUP_RANK": settings.rank, "GROUP_WORLD_SIZE": settings.world})
    os.environ.update({key: str(value) for key, value in own.items()})
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    # NCCL's monitoring threads would ask the store from outside Python until the process ends.
    os.environ.setdefault("TORCH_NCCL_ENABLE_MONITORING", "0")
    os.environ.setdefault("TORCH_NCCL_DUMP_ON_TIMEOUT", "0")


def _meet_nobody(torch, settings):
    c10d = torch.distributed.distributed_c10d
    store_type = _alone_store_type(torch)

    def rendezvous(url, rank=-1, world_size=-1, **kwargs):
        store = store_type()
        _kept.append(store)
        # A script may well make a smaller group of its own; a larger world than that of --world is its own affair.
        yield store, settings.rank if rank < 0 else rank, settings.world if world_size < 0 else world_size

    c10d.rendezvous = rendezvous
    sys.modules["torch.distributed.rendezvous"].rendezvous = rendezvous
    torch.distributed.TCPStore = c10d.TCPStore = functools.partial(_make_store, store_type)
    if hasattr(c10d, "ProcessGroupGloo"):
        c10d.ProcessGroupGloo = _gloo_alone(torch)
    # A split communicator learns its size from the other ranks' choices; one that is not split is told it.
    if hasattr(c10d, "_get_split_source"):
        c10d._get_split_source = lambda *args, **kwargs: None
    if hasattr(torch.distributed.ProcessGroup, "split_group"):
        torch.distributed.ProcessGroup.split_group = _tell_size(torch.distributed.ProcessGroup.split_group)
    replace("monitored_barrier", lambda original: lambda *args, **kwargs: None)
    replace("broadcast_object_list", _only_from_here)
    replace("scatter_object_list", _only_from_here)
    replace("recv_object_list", lambda original: _recv_object_list)
    replace("gather_object", lambda original: _gather_object)


def _make_store(store_type, *args, **kwargs):
    store = store_type()
    _kept.append(store)
    return store


def _alone_store_type(torch):
    class AloneStore(torch.distributed.Store):
        """Keeps what is put into it, and answers at once for what another rank would have put: with the 128 bytes of
        an ncclUniqueId, which is what ranks ask each other for."""

        def __init__(self):
            super().__init__()
            self._values = {}
            self._lock = threading.Lock()

        def clone(self):
            return self

        def set(self, key, value):
            with self._lock:
                self._values[key] = value.encode() if isinstance(value, str) else bytes(value)

        def get(self, key):
            with self._lock:
                return self._values.get(key, bytes(128))

        def add(self, key, value):
            with self._lock:
                total = int(self._values.get(key, b"0")) + value
                self._values[key] = str(total).encode()
                return total

        def compare_set(self, key, expected, desired):
            with self._lock:
                current = self._values.get(key)
                if current is None or current == _bytes(expected):
                    self._values[key] = _bytes(desired)
                return self._values[key]

        def append(self, key, value):
            with self._lock:
                self._values[key] = self._values.get(key, b"") + _bytes(value)

        def check(self, keys):
            with self._lock:
                return all(key in self._values for key in keys)

        def delete_key(self, key):
            with self._lock:
                return self._values.pop(key, None) is not None

        def num_keys(self):
            with self._lock:
                return len(self._values)

        def multi_get(self, keys):
            return [self.get(key) for key in keys]

        def multi_set(self, keys, values):
            for key, value in zip(keys, values):
                self.set(key, value)

        def has_extended_api(self):
            return False

        def wait(self, keys, timeout=None):
            return None

        def set_timeout(self, timeout):
            return None

        # PyTorch's C++ side asks for some of them by these names.
        deleteKey = delete_key
        getNumKeys = num_keys

    return AloneStore


def _tell_size(split_group):
    @functools.wraps(split_group)
    def call(self, ranks, *args, **kwargs):
        own = self.rank()
        if own in ranks:
            ctypes.CDLL(None).gpuplan_shadow_expect_split(len(ranks), sorted(ranks).index(own))
        return split_group(self, ranks, *args, **kwargs)

    return call


def _bytes(value):
    return value.encode() if isinstance(value, str) else bytes(value)


def _gloo_alone(torch):
    """A stand-in for ProcessGroupGloo that makes PyTorch's fake backend, which talks to nobody."""
    from torch._C._distributed_c10d import FakeProcessGroup

    class WithOptions(FakeProcessGroup):
        """For releases whose fake backend lacks what init_process_group asks of Gloo."""

        def __init__(self, rank, size):
            super().__init__(rank, size)
            self.options = type("Options", (), {})()

        def _set_sequence_number_for_group(self):
            return None

    class LooksLikeGloo(type):
        def __instancecheck__(cls, instance):
            return isinstance(instance, FakeProcessGroup)

    class ProcessGroupGloo(metaclass=LooksLikeGloo):
        def __new__(cls, store, rank, size, timeout=None, **kwargs):
            create = getattr(FakeProcessGroup, "_create_internal", None)
            group = create(rank, size, FakeProcessGroup.Options()) if create else WithOptions(rank, size)
            _kept.append(group)
            return group

    return ProcessGroupGloo


def _only_from_here(original):
    """For what one rank sends to the others. An imagined sender is like this rank, so that what it would send is what
    this rank has already."""
    signature = inspect.signature(original)

    @functools.wraps(original)
    def call(*args, **kwargs):
        import torch.distributed as distributed

        given = signature.bind(*args, **kwargs).arguments
        group_source = given.get("group_src")
        if group_source is not None:
            here = distributed.get_rank(given.get("group")) == group_source
        else:
            here = distributed.get_rank() == (given.get("src") or 0)
        return original(*args, **kwargs) if here else None

    return call


def _recv_object_list(object_list, src=None, group=None, device=None, group_src=None, **kwargs):
    return src if src is not None else group_src


def _gather_object(obj, object_gather_list=None, *args, **kwargs):
    """Before 2.9 a gather is receives, of which an imagined rank has nothing to give."""
    if object_gather_list is not None:
        object_gather_list[:] = [obj] * len(object_gather_list)
