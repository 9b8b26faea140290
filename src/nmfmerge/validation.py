"""Every argument a user can give is checked here, once, before any computation.

Messages name the argument as the user typed it, what was expected, what came, and the fix.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge import lazy, tensors
from nmfmerge.data import DataMatrix, Side, wrap
from nmfmerge.data.scale import float_type, unit_exponent
from nmfmerge.foreign import to_compressed, to_numpy
from nmfmerge.held import Held
from nmfmerge.labels import axes_of, matrix_of, nonnegative_instead

INIT_NAMES = ("init[0] (W0)", "init[1] (H0)")


def check_X(X: Any, device: Any = None, tf32: bool = False, source: Any = None) -> DataMatrix:
    """Check the data, take its scale off, and wrap it; float32 and float64 are not copied.

    With ``device`` the data go there; results come back as X came. ``source`` is what the user
    gave, with names, where X was taken out of it.
    """
    if isinstance(X, DataMatrix):
        return X
    source = X if source is None else source
    data = _check_matrix(matrix_of(X), device, tf32, source)
    data.axes = axes_of(source)
    return data


def _check_matrix(X: Any, device: Any, tf32: bool, source: Any) -> DataMatrix:
    if lazy.is_lazy(X):
        return _open_lazy(X, device)
    if not tensors.is_tensor(X):
        matrix, exponent = _check_on_host(X, source)
        if device is None or tensors.is_host(device):
            return wrap(matrix, exponent)
        moved = tensors.device_matrix(tensors.on_device(matrix, device), tf32)
        moved.give = moved.kernels.to_host  # type: ignore[method-assign]
        return moved
    home = X.device
    X = X if device is None else tensors.on_device(X, device)
    if tensors.is_host(X.device):
        matrix, exponent = _check_on_host(tensors.host_matrix(X), source)
        data = tensors.give_tensors(wrap(matrix, exponent))
    else:
        data = tensors.device_matrix(X, tf32)
    if home != X.device:
        give = data.give
        data.give = lambda A: give(A).to(home)  # type: ignore[method-assign]
    return data


def _open_lazy(X: Any, device: Any) -> DataMatrix:
    if device is not None and not tensors.is_host(device):
        raise ValueError(
            f"device={device!r} cannot be used for a Dask array, which is factorized where its "
            "chunks are: leave it out, or pass X.compute()"
        )
    return lazy.open_matrix(X)


def _check_on_host(X: Any, source: Any) -> tuple[Any, int]:
    """Check the data; return them as an array or a compressed matrix, with their unit exponent."""
    matrix: Any = _check_sparse(X) if sp.issparse(X) else check_array("X", X)
    if min(matrix.shape) == 0:
        raise ValueError(f"X is empty: its shape is {matrix.shape}; it needs rows and columns")
    values = matrix.data if sp.issparse(matrix) else matrix
    low, high = (values.min(), values.max()) if values.size else (0.0, 0.0)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(
            f"X contains NaN or infinity ({_first(matrix, lambda v: ~np.isfinite(v))}); NMF needs "
            "finite values: drop or fill those entries first"
        )
    if low < 0:
        raise ValueError(
            f"Negative values in data passed to NMF ({_first(matrix, lambda v: v < 0)}); X must "
            f"be nonnegative: {nonnegative_instead(source)}"
        )
    return matrix, unit_exponent(float(high))


def check_X_on_host(X: Any, user: str) -> DataMatrix:
    """Check data for what works on the CPU alone, in memory; results are NumPy arrays."""
    matrix = matrix_of(X)
    if lazy.is_lazy(matrix):
        raise TypeError(f"X is a Dask array; {user} works in memory: pass X.compute()")
    if tensors.is_tensor(matrix):
        if not tensors.is_host(matrix.device):
            raise TypeError(
                f"X is a tensor on {matrix.device}; {user} works on the CPU: pass X.cpu()"
            )
        X = tensors.host_matrix(matrix)
    return check_X(X)


def check_solver_fits(solver: Any, data: DataMatrix) -> None:
    """Check that the solver can work where X is."""
    if not solver.on_shards and any(data.defers(side) for side in ("W", "H")):
        raise ValueError(
            f"solver={solver.name!r} needs X in memory; for a Dask array use 'accelerated' or "
            "'hals'"
        )
    if not solver.on_devices and data.passes_at_once > 1:
        raise ValueError(
            f"solver={solver.name!r} works on the CPU only; on a device use 'accelerated', 'hals' "
            "or 'mu'"
        )


def check_array(name: str, A: Any) -> np.ndarray:
    """Check that A is a 2-D array of real numbers; return it as float32 or float64."""
    A = to_numpy(name, tensors.to_numpy(A))
    if np.ma.is_masked(A):
        raise TypeError(f"{name} has masked entries; missing values are not supported: fill them")
    A = np.asarray(A)
    if A.dtype.kind == "c":
        raise TypeError(f"{name} is complex; NMF needs real values: take np.abs({name})")
    if A.dtype.kind not in "fiub":
        raise TypeError(
            f"{name} has dtype {A.dtype}; expected real numbers: convert it with "
            f"{name}.astype(float)"
        )
    if A.ndim != 2:
        raise ValueError(
            f"{name} has {A.ndim} dimension(s); expected a 2-D array of rows and columns: use "
            f"{name}.reshape(-1, 1) for a single column"
        )
    return A.astype(float_type(A.dtype), copy=False)


def check_n_components(n_components: Any, shape: tuple[int, int]) -> int:
    """Check the rank against the shape of X."""
    m, n = shape
    n_components = check_integer("n_components", n_components, low=1)
    if n_components > min(m, n):
        raise ValueError(
            f"n_components={n_components} is too large for X with n_samples={m} rows and "
            f"n_features={n} columns: use at most {min(m, n)}"
        )
    return n_components


def check_ranks(n_min: Any, n_max: Any, shape: tuple[int, int]) -> tuple[int, int]:
    """Check a range of ranks against the shape of X."""
    n_max = check_integer("n_max", n_max, low=1)
    n_min = check_integer("n_min", n_min, low=1)
    if n_max > min(shape):
        raise ValueError(
            f"n_max={n_max} is too large for X with {shape[0]} rows and {shape[1]} columns: use "
            f"at most {min(shape)}"
        )
    if n_min > n_max:
        raise ValueError(f"n_min={n_min} is above n_max={n_max}; expected at most n_max")
    return n_min, n_max


def check_integer(name: str, value: Any, *, low: int) -> int:
    """Check a whole number of at least ``low``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(
            f"{name}={value!r} is a {type(value).__name__}; expected a whole number, {low} or more"
        )
    if value < low:
        raise ValueError(f"{name}={value!r} is out of range; expected {low} or more")
    return int(value)


def check_real(name: str, value: Any, *, low: float, open_end: bool = False) -> float:
    """Check a finite real number of at least (with ``open_end``: more than) ``low``."""
    expected = f"expected a number {'above' if open_end else 'of at least'} {low:g}"
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r} is a {type(value).__name__}; {expected}")
    number = float(value)
    if not np.isfinite(number) or number < low or (open_end and number == low):
        raise ValueError(f"{name}={value!r} is out of range; {expected}")
    return number


def check_optional_real(name: str, value: Any, **bounds: Any) -> float | None:
    """Check a real number, or None."""
    return None if value is None else check_real(name, value, **bounds)


def check_word(name: str, value: Any, known: Mapping[str, Any]) -> str:
    """Check that a word is one of those known."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(repr(word) for word in known)
        raise ValueError(f"{name}={_short(value)} is not known; expected one of {words}")
    return value


def check_index(name: str, value: Any, r: int) -> int:
    """Check the index of one of r components."""
    index = check_integer(name, value, low=0)
    if index >= r:
        raise ValueError(
            f"{name}={value!r} is out of range; the {r} components are counted from 0 to {r - 1}"
        )
    return index


def check_name(name: str, value: Any) -> str:
    """Check a name that can be printed on one line."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={_short(value)} is a {type(value).__name__}; expected a string")
    if not value.strip() or not value.isprintable():
        raise ValueError(f"{name}={_short(value)} cannot be read; expected words on one line")
    return str(value)


def check_init(init: Any, known: Mapping[str, Any]) -> str | tuple[np.ndarray, np.ndarray]:
    """Check a word, or a pair of factors (W0, H0)."""
    if isinstance(init, str):
        return check_word("init", init, known)
    if isinstance(init, tuple) and any(isinstance(one, str) for one in init):
        raise TypeError(f"init={_short(init)} is a tuple; give several starts as a list")
    if isinstance(init, tuple | list) and len(init) == 2:
        W0, H0 = map(lazy.computed, init)
        return check_factors(W0, H0, names=INIT_NAMES)
    words = ", ".join(repr(word) for word in known)
    raise TypeError(
        f"init={_short(init)} is a {type(init).__name__}; expected one of {words}, or a pair of "
        "arrays (W0, H0)"
    )


def check_inits(init: Any, n_init: int, known: Mapping[str, Any]) -> list[Any]:
    """Check what the starts begin with: one and random others, or a list of all."""
    listed = isinstance(init, list) and all(isinstance(one, str | tuple) for one in init)
    if listed and not init:
        raise ValueError("init=[] has no start; expected a list of words or pairs (W0, H0)")
    return [
        check_init(one, known) for one in (init if listed else [init] + (n_init - 1) * ["random"])
    ]


def check_hold(hold: Any, init: Any, r: int) -> Held | None:
    """Check which components are held: indices, or a mapping of "W" and "H" to indices."""
    if hold is None:
        return None
    if isinstance(init, str):
        raise ValueError(
            f"hold={_short(hold)} says which components of init stay as they are, but "
            f"init={init!r}: give them as init=(W0, H0)"
        )
    if isinstance(hold, Mapping):
        if not hold.keys() <= {"W", "H"}:
            raise ValueError(f"hold={_short(hold)} has keys other than 'W' and 'H'; expected these")
        W, H = (check_indices(f"hold[{side!r}]", hold.get(side, ()), r) for side in ("W", "H"))
    else:
        W = H = check_indices("hold", hold, r)
    return Held.of(r, W, H) if W or H else None


def check_held_fits(held: Held | None, data: DataMatrix) -> None:
    """Check that the factor of which components are held is at hand."""
    sides: tuple[Side, Side] = ("W", "H")
    for side in sides:
        if held is not None and data.defers(side) and getattr(held, side).any():
            present, fix, short = (
                ("rows", "columns, X.rechunk({0: -1, 1: 'auto'})", "H")
                if side == "W"
                else ("columns", "rows, X.rechunk({0: 'auto', 1: -1})", "W")
            )
            raise ValueError(
                f"hold names components of {side}, which is not held in memory for a Dask array in "
                f"chunks of {present}: give chunks of {fix}, or use hold={{{short!r}: indices}}"
            )


def check_indices(name: str, value: Any, r: int) -> list[int]:
    """Check indices of components, or a mask of them."""
    expected = f"expected indices of components, from 0 to {r - 1}"
    plain = isinstance(value, Iterable) and not isinstance(value, str | Mapping | np.ndarray)
    array = np.asarray(list(value) if plain else value)
    if array.size == 0:
        return []
    if array.ndim != 1 or array.dtype.kind not in "iub":
        raise TypeError(f"{name}={_short(value)} is a {type(value).__name__}; {expected}")
    if array.dtype.kind == "b":
        if len(array) != r:
            raise ValueError(f"{name} is a mask of {len(array)} entries; expected {r}")
        return np.flatnonzero(array).tolist()
    if array.min() < 0 or array.max() >= r or len(set(array.tolist())) < len(array):
        raise ValueError(f"{name}={_short(value)} is out of range or repeats; {expected}")
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
        raise ValueError(
            f"{names[0]} and {names[1]} have shapes {W.shape} and {H.shape}; for X {data.shape} "
            f"and n_components={r} expected {(m, r)} and {(r, n)}"
        )
    Wt, H = (F.astype(np.float64, copy=False) / data.unit for F in (W.T, H))
    limit = 1e-2 * float(np.finfo(data.dtype).max) ** 0.25  # of the objective's ⟨WᵀW, HHᵀ⟩
    if max(Wt.max(initial=0), H.max(initial=0)) > limit:
        Wt, H = _balanced(Wt, H, None if held is None else held.either)
    if _too_large(Wt, H, limit, held if uneven else None, float(np.finfo(data.dtype).max)):
        raise ValueError(
            f"{names[0]} and {names[1]} have a component that is too large beside X for "
            f"{data.dtype}: divide one of them until their product is of the size of X"
        )
    return np.array(Wt, dtype=data.dtype, order="C"), np.array(H, dtype=data.dtype, order="C")


def _too_large(
    Wt: np.ndarray, H: np.ndarray, limit: float, held: Held | None, largest: float
) -> bool:
    """Whether products of the factors could leave the range of their precision.

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
        raise ValueError(
            f"{names[0]} has shape {W.shape} and {names[1]} has shape {H.shape}; the columns of "
            "the first must be as many as the rows of the second"
        )
    return W, H


def check_factor(name: str, value: Any) -> np.ndarray:
    """Check a nonnegative, finite factor."""
    F = check_array(name, value)
    if not np.isfinite(F.sum()) and not np.isfinite(F).all():
        raise ValueError(f"{name} contains NaN or infinity; expected finite values")
    if F.size and F.min() < 0:
        raise ValueError(f"{name} has negative values; expected a nonnegative factor")
    return F


def check_random_state(random_state: Any) -> np.random.Generator:
    """Make a generator; None is the fixed seed 0, so that a call without a seed repeats."""
    if random_state is None:
        return np.random.default_rng(0)
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31, size=4))
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return np.random.default_rng(check_integer("random_state", random_state, low=0))
    raise TypeError(
        f"random_state={_short(random_state)} is a {type(random_state).__name__}; expected None, "
        "a whole number, a numpy Generator or a RandomState"
    )


def check_callable(name: str, value: Any) -> Callable[..., Any] | None:
    """Check a function, or None."""
    if value is not None and not callable(value):
        raise TypeError(f"{name}={_short(value)} is a {type(value).__name__}; expected a function")
    return value


def check_file(name: str, value: Any) -> Path:
    """Check a file that is to be written, in a folder that is there."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name}={_short(value)} is a {type(value).__name__}; expected a path")
    path = Path(value)
    if path.is_dir():
        raise ValueError(f"{name}={str(path)!r} is a folder; expected a file")
    if not path.parent.is_dir():
        raise ValueError(f"{name}={str(path)!r}: there is no folder {str(path.parent)!r}; make it")
    return path


def _check_sparse(X: Any) -> Any:
    if X.dtype.kind == "c":
        raise TypeError("X is complex; NMF needs real values: take abs(X)")
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); expected a 2-D sparse matrix")
    return to_compressed("X", X, float_type(X.dtype))


def _first(X: Any, wrong: Callable[[np.ndarray], np.ndarray]) -> str:
    """Name the first entry of X that is wrong."""
    if sp.issparse(X):
        X = X.tocoo()
        at = int(np.argmax(wrong(X.data)))
        i, j, value = X.row[at], X.col[at], X.data[at]
    else:
        i, j = np.unravel_index(int(np.argmax(wrong(X))), X.shape)
        value = X[i, j]
    return f"X[{i}, {j}] is {value:.6g}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
