"""Checks of data, factors and arguments that depend on each other, before any computation.

Arguments that can be checked alone are declared in `nmfmerge.settings`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError, ArgumentTypeError, Given, wrong_type
from nmfmerge.arguments.values import Whole
from nmfmerge.inputs import lazy, missing, refusals, tensors
from nmfmerge.inputs.arrays import check_array, first_wrong
from nmfmerge.inputs.conversion import to_compressed
from nmfmerge.inputs.hold import Held
from nmfmerge.inputs.labels import axes_of, matrix_of, nonnegative_instead
from nmfmerge.matrices import DataMatrix, Side, wrap
from nmfmerge.matrices.offers import Need
from nmfmerge.matrices.scale import float_type, unit_exponent
from nmfmerge.settings import SETTINGS

INIT_NAMES = ("init[0] (W0)", "init[1] (H0)")


def check_X(
    X: Any,
    device: Any = None,
    tf32: bool = False,
    source: Any = None,
    weights: Any = None,
    absent: str = "nan",
) -> DataMatrix:
    """Check the data, take its scale off, and wrap it; float32 and float64 are not copied.

    With ``device`` the data go there; results come back as X came. ``source`` is what the user
    gave, with names, where X was taken out of it. NaN is missing; ``weights`` are those of the
    entries, and ``absent`` says whether entries that a sparse X does not store are "zeros", which
    are missing then, too.
    """
    if isinstance(X, DataMatrix):
        return X
    source = X if source is None else source
    data = _check_matrix(matrix_of(X), device, tf32, _Entries(source, weights, absent))
    data.axes = axes_of(source)
    return data


class _Entries(NamedTuple):
    """Facts about the entries of X beside their values."""

    source: Any
    weights: Any
    absent: str

    @property
    def plain(self) -> bool:
        """True if all entries count alike."""
        return self.weights is None and self.absent == "nan"


def _check_matrix(X: Any, device: Any, tf32: bool, entries: _Entries) -> DataMatrix:
    if lazy.is_lazy(X):
        return _open_lazy(X, device, entries)
    if not tensors.is_tensor(X):
        matrix, data = _check_on_host(X, entries)
        if device is None or tensors.is_host(device):
            return data
        moved = _moved(matrix, data, device, tf32)
        moved.to_user = moved.kernels.to_host  # type: ignore[method-assign]
        return moved
    home = X.device
    X = X if device is None else tensors.on_device(X, device)
    if tensors.is_host(X.device):
        data = tensors.give_tensors(_check_on_host(tensors.host_matrix(X), entries)[1])
    elif entries.plain and not tensors.has_nan(X):
        data = tensors.device_matrix(X, tf32)
    else:
        data = _moved(*_check_on_host(tensors.host_matrix(X.cpu()), entries), X.device, tf32)
    if home != X.device:
        to_user = data.to_user
        data.to_user = lambda A: to_user(A).to(home)  # type: ignore[method-assign]
    return data


def _moved(matrix: Any, data: DataMatrix, device: Any, tf32: bool) -> DataMatrix:
    """Data that were checked in memory, on a device."""
    if data.weights is None:
        moved = tensors.device_matrix(tensors.on_device(matrix, device), tf32)
        moved.weight_unit = data.weight_unit
        return moved
    if sp.issparse(matrix):
        raise refusals.missing_in_sparse_on_device()
    return tensors.weighted_matrix(data, device, tf32)


def _open_lazy(X: Any, device: Any, entries: _Entries) -> DataMatrix:
    if device is not None and not tensors.is_host(device):
        raise ArgumentError(
            "device",
            "cannot be used for a Dask array, which is factorized where its chunks are",
            value=device,
            fix="leave it out, or pass X.compute()",
        )
    check_absent_in_chunks(entries.absent)
    return lazy.open_matrix(X, entries.weights)


def _check_on_host(X: Any, entries: _Entries) -> tuple[Any, DataMatrix]:
    """Check the data; return them as an array or a compressed matrix, and as a data matrix.

    The data matrix has the weights of the entries, where some count differently.
    """
    matrix: Any = _check_sparse(X) if sp.issparse(X) else check_array("X", X, missing_allowed=True)
    if min(matrix.shape) == 0:
        raise refusals.empty(matrix.shape)
    values = matrix.data if sp.issparse(matrix) else matrix
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
    instead = nonnegative_instead(entries.source)
    if np.isnan(low) or not entries.plain:
        weighted = missing.weighted_matrix(matrix, entries.weights, entries.absent, instead)
        return matrix, weighted
    if not (np.isfinite(low) and np.isfinite(high)):
        raise refusals.infinite(first_wrong(matrix, lambda v: ~np.isfinite(v)))
    if low < 0:
        raise refusals.negative(first_wrong(matrix, lambda v: v < 0), instead)
    return matrix, wrap(matrix, unit_exponent(float(high)))


def check_X_on_host(X: Any, user: str, weights: Any = None, absent: str = "nan") -> DataMatrix:
    """Check data for what works on the CPU alone, in memory; results are NumPy arrays."""
    matrix = matrix_of(X)
    if lazy.is_lazy(matrix):
        raise ArgumentTypeError(
            "X", f"is a Dask array; {user} works in memory", fix="pass X.compute()"
        )
    if tensors.is_tensor(matrix):
        if not tensors.is_host(matrix.device):
            raise ArgumentTypeError(
                "X", f"is a tensor on {matrix.device}; {user} works on the CPU", fix="pass X.cpu()"
            )
        X = tensors.host_matrix(matrix)
    return check_X(X, weights=weights, absent=absent)


def check_absent_in_chunks(absent: str) -> None:
    """Check that entries which a Dask array does not store are zeros."""
    if absent != "nan":
        raise refusals.missing_zeros_in_dask(absent)


def check_observed(data: DataMatrix, lines: tuple[str, ...] = ("row", "column")) -> None:
    """Check that every row and column has an observation, or that one of the two has."""
    if data.weights is None:
        return
    sides: dict[str, Side] = {"row": "W", "column": "H"}
    for line in lines:
        empty = data.weights.unobserved(sides[line])
        if len(empty):
            raise refusals.unobserved(line, empty)


def placed(data: DataMatrix, device: Any) -> DataMatrix:
    """Data that were checked in memory, on a device; None and "cpu" leave them there."""
    if device is None or tensors.is_host(device):
        return data
    return _moved(data.in_full(), data, device, False)


def check_loss_fits(loss: Any, data: DataMatrix | type[DataMatrix]) -> None:
    """Check that the loss can be computed where X is."""
    check_needs("beta_loss", loss.name, loss.needs, data)


def check_needs(
    argument: str,
    name: str,
    needs: frozenset[Need],
    data: DataMatrix | type[DataMatrix],
    others: Iterable[str] = (),
) -> None:
    """Check that the data offer what a loss or a solver needs; ``others`` need no more."""
    for need in Need:
        if need in needs - data.offers:
            instead = " or ".join(map(repr, others))
            raise ArgumentError(
                argument,
                f"needs {need.value}",
                value=name,
                fix=f"for {data.kind} {f'use {instead}' if instead else f'pass {data.in_memory}'}",
            )


def check_n_components(n_components: int, shape: tuple[int, int]) -> None:
    """Check the rank against the shape of X."""
    m, n = shape
    if n_components > min(m, n):
        raise ArgumentError(
            "n_components",
            f"is too large for X with n_samples={m} rows and n_features={n} columns",
            value=n_components,
            fix=f"use at most {min(m, n)}",
        )


def check_ranks(n_min: int, n_max: int, shape: tuple[int, int]) -> None:
    """Check a range of ranks against the shape of X."""
    m, n = shape
    if n_max > min(m, n):
        raise ArgumentError(
            "n_max",
            f"is too large for X with {m} rows and {n} columns",
            value=n_max,
            fix=f"use at most {min(m, n)}",
        )
    if n_min > n_max:
        raise ArgumentError(
            "n_min",
            "is above {highest}",
            value=n_min,
            expected="at most {n_max}",
            highest=Given("n_max", n_max),
        )


def check_index(name: str, value: Any, r: int) -> int:
    """Check the index of one of r components."""
    index = Whole(0).check(name, value)
    if index >= r:
        raise ArgumentError(
            name, f"is out of range; the {r} components are counted from 0 to {r - 1}", value=value
        )
    return index


def check_init(init: Any) -> str | tuple[np.ndarray, np.ndarray]:
    """Check a word, or a pair of factors (W0, H0)."""
    if isinstance(init, str):
        return str(SETTINGS["init"].check(init))
    if isinstance(init, tuple) and any(isinstance(one, str) for one in init):
        raise ArgumentTypeError(
            "init", "is a tuple", value=init, fix="give several starts as a list"
        )
    if isinstance(init, tuple | list) and len(init) == 2:
        W0, H0 = map(lazy.computed, init)
        return check_factors(W0, H0, names=INIT_NAMES)
    raise wrong_type("init", init, SETTINGS["init"].takes.expected)


def check_inits(init: Any, n_init: int) -> list[Any]:
    """Check what the starts begin with: one and random others, or a list of all."""
    listed = isinstance(init, list) and all(isinstance(one, str | tuple) for one in init)
    if listed and not init:
        raise ArgumentError(
            "init", "has no start", value=init, expected="a list of words or pairs (W0, H0)"
        )
    return [check_init(one) for one in (init if listed else [init] + (n_init - 1) * ["random"])]


def check_hold(hold: Any, init: Any, r: int) -> Held | None:
    """Check which components are held: indices, or a mapping of "W" and "H" to indices."""
    if hold is None:
        return None
    if isinstance(init, str):
        raise ArgumentError(
            "hold",
            "says which components of {init} stay as they are, but {init} is {word}",
            value=hold,
            fix="give them as {init=}(W0, H0)",
            word=repr(init),
        )
    if isinstance(hold, Mapping):
        if not hold.keys() <= {"W", "H"}:
            raise ArgumentError(
                "hold", "has other keys", value=hold, expected="no keys but 'W' and 'H'"
            )
        W, H = (check_indices(f"hold[{side!r}]", hold.get(side, ()), r) for side in ("W", "H"))
    else:
        W = H = check_indices("hold", hold, r)
    return Held.of(r, W, H) if W or H else None


def check_held_fits(held: Held | None, data: DataMatrix) -> None:
    """Check that a factor with held components is not one in shards."""
    sides: tuple[Side, Side] = ("W", "H")
    for side in sides:
        if held is not None and data.is_sharded(side) and getattr(held, side).any():
            present, fix, short = (
                ("rows", "columns, X.rechunk({0: -1, 1: 'auto'})", "H")
                if side == "W"
                else ("columns", "rows, X.rechunk({0: 'auto', 1: -1})", "W")
            )
            raise ArgumentError(
                "hold",
                f"names components of {side}, which is not held in memory for a Dask array in "
                f"chunks of {present}",
                fix="give chunks of {others}, or use {short}",
                others=fix,
                short=f"hold={{{short!r}: indices}}",
            )


def check_indices(name: str, value: Any, r: int) -> list[int]:
    """Check indices of components, or a mask of them."""
    expected = f"indices of components, from 0 to {r - 1}"
    plain = isinstance(value, Iterable) and not isinstance(value, str | Mapping | np.ndarray)
    array = np.asarray(list(value) if plain else value)
    if array.size == 0:
        return []
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise wrong_type(name, value, expected)
    if array.dtype.kind == "b":
        if len(array) != r:
            raise ArgumentError(
                name, f"is a mask of {len(array)} entries", expected=f"one for each of {r}"
            )
        return np.flatnonzero(array).tolist()
    if array.min() < 0 or array.max() >= r or len(set(array.tolist())) < len(array):
        raise ArgumentError(name, "is out of range or repeats", value=value, expected=expected)
    return array.tolist()


def check_fit(
    W: np.ndarray,
    H: np.ndarray,
    data: DataMatrix,
    r: int,
    names: tuple[str, str] = ("W", "H"),
    held: Held | None = None,
    uneven: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Check factors of X; return those of X / unit², component-major, in its precision, copied.

    Components that are too large in W or H share their size between the two, unless they are held:
    these may stay ``uneven``, where the solver bears that.
    """
    m, n = data.shape
    if W.shape != (m, r) or H.shape != (r, n):
        raise ArgumentError(
            names[0],
            f"and {names[1]} have shapes {W.shape} and {H.shape}",
            expected=f"{(m, r)} and {(r, n)} for X {data.shape} and {{rank}}",
            rank=Given("n_components", r),
        )
    Wt, H = (F.astype(np.float64, copy=False) / data.unit for F in (W.T, H))
    limit = 1e-2 * float(np.finfo(data.dtype).max) ** 0.25  # of the objective's ⟨WᵀW, HHᵀ⟩
    if max(Wt.max(initial=0), H.max(initial=0)) > limit:
        Wt, H = _balanced(Wt, H, None if held is None else held.either)
    if _too_large(Wt, H, limit, held if uneven else None, float(np.finfo(data.dtype).max)):
        raise ArgumentError(
            names[0],
            f"and {names[1]} have a component that is too large beside X for {data.dtype}",
            fix="divide one of them until their product is of the size of X",
        )
    return np.array(Wt, dtype=data.dtype, order="C"), np.array(H, dtype=data.dtype, order="C")


def _too_large(
    Wt: np.ndarray, H: np.ndarray, limit: float, held: Held | None, largest: float
) -> bool:
    """True if products of the factors could leave the range of their precision.

    A held component may be large in one factor and small in the other, as its squares allow.
    """
    w, h = (F.max(axis=1, initial=0) for F in (Wt, H))
    if max(w.max(initial=0), h.max(initial=0)) <= limit:
        return False
    if held is None:
        return True
    most = max(w.max(initial=0), h.max(initial=0))
    return bool((w * h).max(initial=0) > limit**2 or most > 1e-4 * np.sqrt(largest))


def _balanced(
    Wt: np.ndarray, H: np.ndarray, held: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """The same components, each with its size shared between W and H, by powers of two."""
    w, h = (np.frexp(F.max(axis=1, initial=0))[1][:, None] for F in (Wt, H))
    shift = (h - w) // 2
    if held is not None:
        shift[held] = 0
    return np.ldexp(Wt, shift), np.ldexp(H, -shift)


def check_factors(
    W: Any, H: Any, names: tuple[str, str] = ("W", "H")
) -> tuple[np.ndarray, np.ndarray]:
    """Check a pair of nonnegative, finite factors that fit together."""
    W, H = (check_factor(name, F) for name, F in zip(names, (W, H), strict=True))
    if W.shape[1] != H.shape[0]:
        raise ArgumentError(
            names[0],
            f"has shape {W.shape} and {names[1]} has shape {H.shape}",
            expected="as many columns of the first as rows of the second",
        )
    return W, H


def check_factor(name: str, value: Any) -> np.ndarray:
    """Check a nonnegative, finite factor."""
    F = check_array(name, value)
    if not np.isfinite(F.sum()) and not np.isfinite(F).all():
        raise ArgumentError(name, "contains NaN or infinity", expected="finite values")
    if F.size and F.min() < 0:
        raise ArgumentError(name, "has negative values", expected="a nonnegative factor")
    return F


def generator(random_state: Any) -> np.random.Generator:
    """Make a generator; None is the fixed seed 0, so that a call without a seed repeats."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    return np.random.default_rng(0 if random_state is None else random_state)


def _check_sparse(X: Any) -> Any:
    if X.dtype.kind == "c":
        raise refusals.not_numbers("X", X.dtype)
    if X.ndim != 2:
        raise refusals.not_a_matrix("X", X.ndim, "sparse matrix")
    return to_compressed("X", X, float_type(X.dtype))
