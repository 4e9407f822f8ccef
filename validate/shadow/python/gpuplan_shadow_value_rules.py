"""Functions of torch from C by name (gpuplan_shadow_values.py), and what is known of their results."""

# Run as they are: they launch nothing and say nothing of values. Views share what is known of their storage.
UNHOOKED = frozenset(
    """view view_as transpose permute t split chunk expand expand_as unsqueeze squeeze select narrow unbind swapaxes movedim
    swapdims moveaxis unflatten split_with_sizes size dim ndimension stride numel nelement data_ptr
    storage_offset untyped_storage is_contiguous element_size is_floating_point is_complex is_inference is_signed
    is_conj is_neg is_same_size is_distributed get_device record_stream pin_memory is_pinned requires_grad_
    retain_grad result_type promote_types can_cast broadcast_tensors _has_compatible_shallow_copy_type
    _make_subclass _is_view _fix_weakref __dir__ __getstate__ __reduce__ __reduce_ex__ __sizeof__
    __format__""".split()
)

# Run as they are, too: they have no small results.
UNSEEN = frozenset(
    """linear matmul bmm baddbmm addmm einsum conv1d conv2d conv3d conv_transpose2d layer_norm batch_norm group_norm
    rms_norm scaled_dot_product_attention relu gelu silu dropout max_pool2d adaptive_avg_pool2d""".split()
)

# Read nothing of the host's, and of an unknown first argument nothing is known afterwards.
PLAIN = frozenset(
    """add sub mul div true_divide __add__ __radd__ __sub__ __mul__ __rmul__ __truediv__ __iadd__ __imul__ neg
    pow rsub add_ mul_ sub_ div_ mean cat stack clamp logical_not __invert__ masked_fill gt ge lt le __gt__ __ge__
    __lt__ __le__ sum clone contiguous float half bfloat16 double detach type reshape""".split()
)

# Their results are random: on the host they are drawn from a generator of ours.
DRAWN = frozenset(
    "rand randn randint randperm bernoulli bernoulli_ random_ uniform_ normal_ exponential_ normal geometric_".split()
)
# Random, too, but without a generator to name: unknown.
RANDOM = frozenset(
    """dropout alpha_dropout feature_dropout dropout_ rrelu rrelu_ rand_like randn_like randint_like poisson
    cauchy_ log_normal_ resize_ empty empty_like new_empty empty_strided new_empty_strided
    fractional_max_pool2d set_ _standard_gamma""".split()
)

# Integers that nobody has written yet are taken as zeros, so that writing them part by part makes them known.
EMPTY = frozenset("empty empty_like new_empty empty_strided new_empty_strided".split())

# name -> the element that all elements are, from (args, kwargs).
SAME = {
    "zeros": lambda args, kwargs: 0,
    "zeros_like": lambda args, kwargs: 0,
    "new_zeros": lambda args, kwargs: 0,
    "zero_": lambda args, kwargs: 0,
    "ones": lambda args, kwargs: 1,
    "ones_like": lambda args, kwargs: 1,
    "new_ones": lambda args, kwargs: 1,
    "full": lambda args, kwargs: kwargs["fill_value"] if "fill_value" in kwargs else args[1],
    "full_like": lambda args, kwargs: kwargs["fill_value"] if "fill_value" in kwargs else args[1],
    "new_full": lambda args, kwargs: kwargs["fill_value"] if "fill_value" in kwargs else args[2],
    "fill_": lambda args, kwargs: kwargs["value"] if "value" in kwargs else args[1],
}

# Overwrite `self`, whatever it was.
OVERWRITE = frozenset("zero_ fill_ copy_ random_ bernoulli_ uniform_ normal_ exponential_ geometric_".split())

# Element by element: of inputs whose elements are all the same, so are the results'.
ELEMENTWISE = frozenset(
    """eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ add sub mul div true_divide __add__ __radd__ __sub__
    rsub __mul__ __rmul__ __truediv__ __floordiv__ __mod__ abs neg __invert__ logical_not logical_and
    logical_or logical_xor __and__ __or__ __xor__ bitwise_not bitwise_and bitwise_or clone contiguous to float half
    bfloat16 double int long bool type detach isfinite isnan isinf cuda clamp clamp_min clamp_max exp log sqrt square
    sigmoid tanh where all any max min amax amin mean sum minimum maximum""".split()
)

# name -> what the host reads while the function runs, in order: from (arguments, result) on the host. Each is a
# device-to-host copy in ATen/native/cuda of PyTorch 2.8 to 2.15: Nonzero.cu (the count), UniqueCub.cu (the length),
# SummaryOps.cu (least and greatest), Repeat.cu (the sum).
READS = {}


def reads(*names):
    def decorate(function):
        for name in names:
            READS[name] = function
        return function

    return decorate


@reads("nonzero", "argwhere")
def _nonzero(args, kwargs, result):
    return [int(args[0].count_nonzero())]


@reads("where")
def _where(args, kwargs, result):
    return [int(args[0].count_nonzero())] if len(args) == 1 and not kwargs else []


@reads("masked_select")
def _masked_select(args, kwargs, result):
    return [result.numel()]


@reads("__getitem__", "__setitem__", "index_put_", "index_put")
def _index(args, kwargs, result):
    index = args[1] if isinstance(args[1], (tuple, list)) else (args[1],)
    return [int(part.count_nonzero()) for part in index if is_mask(part)]


# Of these a mask, their second argument, says how large the result is, whatever the first holds.
BY_MASK = frozenset(("__getitem__", "__setitem__", "index_put_", "index_put", "masked_select"))


@reads("unique_consecutive", "_unique2", "_unique")
def _unique(args, kwargs, result):
    return [(result[0] if isinstance(result, tuple) else result).size(0)]


@reads("bincount")
def _bincount(args, kwargs, result):
    return [int(args[0].min()), int(args[0].max())] if args[0].numel() else []


@reads("one_hot")
def _one_hot(args, kwargs, result):
    return [int(args[0].max())] * 2 if args[0].numel() else []


@reads("repeat_interleave")
def _repeat_interleave(args, kwargs, result):
    """The sum; then the least (2.15) or whether none is negative (2.11), of which 1 is good for both: ATen/native/Repeat.h."""
    return [answer for part in args[-1:] if hasattr(part, "sum") for answer in (int(part.sum()), 1)]


# name -> what the host reads of any arguments. normal: whether no deviation is negative, which 2.11 asks (2.15 leaves
# that to the GPU): ATen/native/DistributionTemplates.h.
CHECKS = {"normal": [1]}


def is_mask(part):
    return str(getattr(part, "dtype", "")) in ("torch.bool", "torch.uint8")


# Floats that a kernel computed lie within their function's range, and are finite.
_POSITIVE = (0.0, float("inf"))
BOUNDS = {
    "sigmoid": (0.0, 1.0),
    "softmax": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "log_softmax": (float("-inf"), 0.0),
    "log_sigmoid": (float("-inf"), 0.0),
}
for _name in "exp softplus norm abs square std var rsqrt sqrt linalg_vector_norm linalg_norm frobenius_norm cosh exp_".split():
    BOUNDS[_name] = _POSITIVE

# Keep what is known of the range.
KEEP_BOUNDS = frozenset("clone contiguous to float half bfloat16 double detach cuda type reshape unsqueeze".split())

# comparison -> (true where all of x is above, true where all of x is below); names with and without underscores
COMPARE = {"gt": (True, False), "ge": (True, False), "lt": (False, True), "le": (False, True)}
for _name in list(COMPARE):
    COMPARE["__%s__" % _name] = COMPARE[_name]

# Of unknown floats, which of them it is is drawn: each row by itself, all equally likely.
CHOICES = frozenset(
    "argmax argmin topk sort argsort max min multinomial kthvalue median mode msort cummax cummin".split()
)

FINITE = frozenset("isfinite isnan isinf isposinf isneginf".split())
SAME_AS_ITSELF = frozenset("eq __eq__ ne __ne__".split())
SCALER = "_amp_foreach_non_finite_check_and_unscale_"  # GradScaler's: its second argument says whether it found any
# Of what unknown numbers were compared with: a check, or the end of a loop.
ALL_TRUE = frozenset(("all", "_is_all_true"))
DIVISIONS = frozenset("div true_divide __truediv__".split())
# Of their results something is known, though an argument is not.
SAID_OF_UNKNOWN = (
    CHOICES | FINITE | SAME_AS_ITSELF | KEEP_BOUNDS | frozenset(BOUNDS) | frozenset(COMPARE) | DIVISIONS | {"sum", SCALER} | ALL_TRUE
)
