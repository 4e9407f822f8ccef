"""Which tensors on the GPU have known values: a copy on the host by storage, as long as nothing has changed the
storage since: its version is the same, and no launch that Python did not see (of a collective, a user's kernel, a
backward pass) can have written there, which the runtime knows (runtime/written.h). Plain tensors only; whatever cannot be asked for a storage (a fake, a batched tensor) is unknown.

A storage is known in one of three ways:
  values  its bytes, a storage on the host
  same    one element that all its elements equal: large ones, which take no memory this way
  bounds  (low, high): floats that a kernel computed, which lie strictly between the two; `sums` to one along its rows
"""


class Entry:
    """`write`: the number of the write that put the values, or the one element, where the GPU's lie, at `address`. `weak`: a weak reference to the storage, which keeps its address from being used again. `version`: the tensor's
    when it was written down; None for a tensor of inference mode, which has none. `drawn`: random numbers of ours."""

    __slots__ = ("address", "write", "weak", "version", "values", "same", "bounds", "sums", "drawn")

    def __init__(self, weak, version, values=None, same=None, bounds=None, sums=False, drawn=False):
        self.address = self.write = 0
        self.weak = weak
        self.version = version
        self.values = values
        self.same = same
        self.bounds = bounds
        self.sums = sums
        self.drawn = drawn


class Known:
    """`limit`: the most elements of a tensor whose values are kept one by one."""

    def __init__(self, torch, limit, runtime):
        self.torch = torch
        self.limit = limit
        self.runtime = runtime
        self.entries = {}  # address of the storage -> Entry
        self.sweep_at = 1024
        self.plain = (torch.Tensor, torch.nn.Parameter)

    def entry(self, tensor):
        """What is known of the tensor's storage; None where nothing is."""
        if type(tensor) not in self.plain:
            return None
        try:
            if tensor.numel() == 0:
                return Entry(None, None)  # there is nothing to know
            storage = tensor.untyped_storage()
            entry = self.entries.get(storage._cdata)
            if entry is None:
                return self._of_the_runtime(tensor, storage)
            ours = entry.bounds is not None or self.runtime.holds(storage.data_ptr(), entry.write)
            if entry.version == _version(tensor):
                if ours:
                    return entry
                if storage.data_ptr() == entry.address and not self._bytes_of_others(storage):
                    self._write(entry)  # a backward pass has read it in a thread of its own
                    return entry
            self.forget(tensor)
            if ours:  # changed by what the runtime did not see: the bytes that lie there are the old ones
                self.runtime.forget(storage.data_ptr(), storage.nbytes())
                return None
            return self._of_the_runtime(tensor, storage)
        except Exception:  # a tensor without a storage: batched, on no device, ...
            return None

    def _bytes_of_others(self, storage):
        """Whether something else than the hook has written known bytes there: the program, by CUDA's own functions."""
        values = self.torch.UntypedStorage(storage.nbytes(), device="cpu")
        return self.runtime.read(storage.data_ptr(), values.data_ptr(), storage.nbytes())

    def _of_the_runtime(self, tensor, storage):
        """The bytes that came from the host, or from another process, by ways that Python does not see."""
        size = storage.nbytes()
        if tensor.is_floating_point() or size > 8 * self.limit or size == 0:
            return None
        values = self.torch.UntypedStorage(size, device="cpu")
        if not self.runtime.read(storage.data_ptr(), values.data_ptr(), size):
            return None
        entry = Entry(None, None, values=values)
        self._keep(tensor, entry)
        return entry

    def copy(self, tensor, entry):
        """The tensor on the host: changing it changes what is known, unless all elements are the same. None where its
        elements are not those that were written down (a view of another type)."""
        if tensor.numel() == 0:
            return self.torch.empty(tensor.size(), dtype=tensor.dtype, device="cpu")
        if entry.values is not None:
            empty = self.torch.empty(0, dtype=tensor.dtype, device="cpu")
            return empty.set_(entry.values, tensor.storage_offset(), tensor.size(), tensor.stride())
        if entry.same is not None and entry.same.dtype == tensor.dtype:
            return entry.same.expand(tensor.size())
        return None

    def learn(self, tensor, value, drawn=False, fresh=False):
        """The tensor has `value`, a tensor on the host of the same shape and type. `fresh`: nothing else lies in its
        storage, though that may be larger, as unique() leaves it."""
        elements = tensor.numel()
        if elements > self.limit or elements == 0 or not (fresh or self.is_whole(tensor)):
            return
        values = self.torch.UntypedStorage(tensor.untyped_storage().nbytes(), device="cpu")
        entry = Entry(None, None, values=values, drawn=drawn)
        self.copy(tensor, entry).copy_(value)
        self._keep(tensor, entry)

    def learn_same(self, tensor, element):
        """All its elements are `element`, a tensor of none dimensions on the host."""
        if tensor.numel() == 0 or not self.is_whole(tensor):
            return
        if tensor.numel() <= self.limit:
            self.learn(tensor, element.to(tensor.dtype))
        else:
            self._keep(tensor, Entry(None, None, same=element.to(tensor.dtype)))

    def learn_bounds(self, tensor, bounds, sums=False):
        if self.is_whole(tensor):
            self._keep(tensor, Entry(None, None, bounds=bounds, sums=sums))

    def changed(self, tensor, entry):
        """The copy has been changed as the tensor was."""
        entry.version = _version(tensor)
        self.put(tensor, entry)

    def put(self, tensor, entry):
        """Writes what is known where the GPU's values lie: the host may read it there, and whatever writes there
        without our seeing it is noticed. Of elements that are all the same the first."""
        storage = tensor.untyped_storage()
        if entry.version != _version(tensor) or self.entries.get(storage._cdata) is not entry:
            return
        entry.address = storage.data_ptr()
        self._write(entry)

    def _write(self, entry):
        if entry.values is not None:
            entry.write = self.runtime.write(entry.address, entry.values.data_ptr(), entry.values.nbytes())
        elif entry.same is not None:
            entry.write = self.runtime.write(entry.address, entry.same.data_ptr(), entry.same.element_size())

    def restore(self, addresses, tensors):
        """What lay at these addresses lies there still, unless it is one of the tensors: they have been seen to."""
        wanted = set(addresses).difference(_address(tensor) for tensor in tensors)
        for entry in self.entries.values() if wanted else ():
            if entry.address in wanted and not self.torch.UntypedStorage._expired(entry.weak):
                self._write(entry)

    def forget_at(self, addresses):
        """Launches that no call of torch was behind can have written there: a user's kernel, a collective."""
        wanted = set(addresses)
        for key in [key for key, entry in self.entries.items() if entry.address in wanted and entry.bounds is None]:
            self.torch.UntypedStorage._free_weak_ref(self.entries.pop(key).weak)

    def forget(self, tensor):
        if self.entries and type(tensor) in self.plain:
            entry = self.entries.pop(tensor.untyped_storage()._cdata, None)
            if entry is not None:
                self.torch.UntypedStorage._free_weak_ref(entry.weak)

    def is_whole(self, tensor):
        """Whether the tensor is its storage, in any order: of a part the rest would be unknown."""
        if type(tensor) not in self.plain:
            return False
        return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()

    def _keep(self, tensor, entry):
        self.forget(tensor)
        storage = tensor.untyped_storage()
        entry.weak = storage._weak_ref()
        entry.version = _version(tensor)
        self.entries[storage._cdata] = entry
        if entry.bounds is None:
            self.put(tensor, entry)
        if len(self.entries) > self.sweep_at:
            self._sweep()

    def _sweep(self):
        """Lets go of storages that are gone. Their memory has been free since they went."""
        storages = self.torch.UntypedStorage
        gone = [address for address, entry in self.entries.items() if storages._expired(entry.weak)]
        for address in gone:
            storages._free_weak_ref(self.entries.pop(address).weak)
        self.sweep_at = max(1024, 2 * len(self.entries))


def _address(tensor):
    try:
        return tensor.untyped_storage().data_ptr()
    except Exception:  # a tensor without a storage
        return 0


def _version(tensor):
    return None if tensor.is_inference() else tensor._version
