"""A numeric summary of a data set, and warnings about problems for a fit."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from nmfmerge.arguments.errors import Given, Message
from nmfmerge.datasets.base import Axis, Dataset

_NAMES = 4  # of rows or columns that are shown before the last one
_LETTERS = 24  # of each
_LOOKED_AT = 1_000_000  # values that show whether data are counts
_SMALL_COUNT = 100  # typical count, up to which their noise differs much from entry to entry
_DYNAMIC_RANGE = 1e6  # largest over typical value from which a least-squares fit sees little else


def looks_like_counts(data: Dataset) -> bool:
    """True if values are whole numbers of at least 0, most of them small, and not of pictures."""
    X: Any = data.X
    values = X.data if sp.issparse(X) else np.asarray(X).ravel()
    values = values[:: max(1, values.size // _LOOKED_AT)]
    if data.image_shape is not None or values.dtype.kind not in "iuf" or values.size == 0:
        return False
    if not np.isfinite(values).all() or values.min() < 0 or (values != np.rint(values)).any():
        return False
    present = values[values > 0]
    return bool(present.size > 0 and present.max() > 1 and np.median(present) <= _SMALL_COUNT)


@np.errstate(all="ignore")  # extreme and signalling values are reported below
def describe(data: Dataset) -> dict[str, Any]:
    """Describe a data set, for people and as JSON.

    Parameters
    ----------
    data : Dataset
        What `read` returned, or any other data set with X.

    Returns
    -------
    dict
        name, shape, kind ("dense" or "sparse"), dtype, stored (entries kept in memory), density
        (part of the entries that are not zero), min, max and mean of the finite entries (None
        without any), negative, nan and infinite (numbers of entries), zero_rows, zero_columns,
        megabytes, counts (whether values look like counts), rows and columns (labels), row_names
        and column_names (a few, where they are not plain numbers from 0), description (where there
        is one), and problems: sentences that say what is wrong and what to do.
    """
    X: Any = data.X
    if X is None:
        raise ValueError(f"{data.name!r} has axes but no data: read the file first")
    sparse = sp.issparse(X)
    X = X.tocsr() if sparse else np.asarray(X)
    values = X.data if sparse else X
    m, n = (int(length) for length in X.shape)
    facts: dict[str, Any] = {
        "name": data.name,
        "shape": [m, n],
        "kind": "sparse" if sparse else "dense",
        "dtype": str(X.dtype),
        "stored": int(values.size),
        "density": int(np.count_nonzero(values)) / (m * n),
        **_range(values, m * n),
        "zero_rows": _zeros(X, 1),
        "zero_columns": _zeros(X, 0),
        "megabytes": _bytes(X) / 1e6,
        "counts": looks_like_counts(data),
        "rows": data.rows.label,
        "columns": data.columns.label,
        **names_in_words(data.rows, data.columns),
    }
    if data.description:
        facts["description"] = data.description
    facts["problems"] = _problems(facts, values, data.n_components)
    return facts


def names_in_words(rows: Axis | None, columns: Axis | None) -> dict[str, str]:
    """The first and last names of rows and columns, where they have other names than numbers."""
    found = {"row_names": rows, "column_names": columns}
    return {
        key: _few(axis.values)
        for key, axis in found.items()
        if axis is not None and not _is_numbering(axis.values)
    }


def _is_numbering(values: np.ndarray) -> bool:
    return values.dtype.kind in "iu" and np.array_equal(values, np.arange(len(values)))


def _few(values: np.ndarray) -> str:
    """The first names and the last; of numbers the first and the last, in one line."""
    n = _NAMES if values.dtype.kind in "UO" else 1
    shown = values.tolist() if len(values) <= n + 1 else [*values[:n].tolist(), values[-1]]
    words = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in shown]
    words = [word if len(word) <= _LETTERS else word[: _LETTERS - 1] + "…" for word in words]
    if len(values) > len(words):
        words.insert(-1, "…")
    return ", ".join(" ".join(word.split()) for word in words)


def _range(values: np.ndarray, size: int) -> dict[str, Any]:
    """Extremes and bad entries; what a sparse matrix leaves out counts as zero."""
    bad = {"nan": 0, "infinite": 0}
    if values.dtype.kind == "f":
        left_out = size - values.size
        bad = {"nan": int(np.isnan(values).sum()), "infinite": int(np.isinf(values).sum())}
        if any(bad.values()):
            values = values[np.isfinite(values)]
        size = left_out + values.size
    negative = int((values < 0).sum())
    if size == 0:
        return {"min": None, "max": None, "mean": None, "negative": negative, **bad}
    ends = [float(values.min()), float(values.max())] if values.size else []
    if values.size < size:
        ends.append(0.0)
    mean = float(values.sum(dtype=np.float64)) / size
    if not np.isfinite(mean):
        mean = float((values / size).sum(dtype=np.float64))
    return {"min": min(ends), "max": max(ends), "mean": mean, "negative": negative, **bad}


def _zeros(X: Any, axis: int) -> int:
    """How many rows (axis 1) or columns (axis 0) are all zero."""
    if sp.issparse(X):
        coordinates = X.tocoo()
        filled = (coordinates.row if axis else coordinates.col)[coordinates.data != 0]
        return int(X.shape[1 - axis] - len(np.unique(filled)))
    return int((~X.any(axis=axis)).sum())


def _bytes(X: Any) -> int:
    parts = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
    return sum(part.nbytes for part in parts)


def _problems(facts: dict[str, Any], values: np.ndarray, n_components: int | None) -> list[str]:
    problems = []
    if facts["negative"]:
        problems.append(
            f"{_count(facts['negative'], 'entry is', 'entries are')} negative (down to "
            f"{facts['min']:.4g}) and NMF needs nonnegative data: clip, shift or take magnitudes."
        )
    if facts["nan"]:
        share = 100 * facts["nan"] / (facts["shape"][0] * facts["shape"][1])
        problems.append(
            f"{_count(facts['nan'], 'entry is', 'entries are')} missing "
            f"({share:.2g} % NaN): a fit leaves them out."
        )
    if facts["infinite"]:
        problems.append(
            f"{_count(facts['infinite'], 'entry is', 'entries are')} infinite and NMF needs finite "
            "values: write NaN for what is missing, or drop their rows or columns."
        )
    for key, word in (("zero_rows", "row"), ("zero_columns", "column")):
        if facts[key]:
            problems.append(
                Message(
                    "{count} all zero and carry no information: leave them out with {drop} to save "
                    "time.",
                    count=_count(facts[key], f"{word} is", f"{word}s are"),
                    drop=Given(f"drop_zero_{word}s", True),
                )
            )
    if facts["max"] == 0 and facts["min"] == 0:
        problems.append("All entries are zero: check that the right array was read.")
    problems += _scale_problems(facts, values)
    smaller = min(facts["shape"])
    if n_components is not None and n_components > smaller:
        problems.append(
            f"{n_components} components are more than the {smaller} that a matrix of this shape "
            f"can have: ask for at most {smaller}."
        )
    if smaller == 1:
        problems.append(
            "The matrix has a single row or column, so there is nothing to separate: check the "
            "separator of the file, or read more of it."
        )
    return problems


def _scale_problems(facts: dict[str, Any], values: np.ndarray) -> list[str]:
    if not facts["max"] or facts["max"] <= 0:
        return []
    if facts["max"] > 1e150:
        return [f"Values reach {facts['max']:.3g}: check that the file was read as it was meant."]
    if facts["max"] < 1e-150:
        return [
            f"No value is above {facts['max']:.3g}: check that the file was read as it was meant."
        ]
    typical = float(np.median(values[(values > 0) & (values <= facts["max"])]))
    if facts["max"] > _DYNAMIC_RANGE * typical:
        return [
            f"The largest value is {facts['max'] / typical:.1e} times the typical one, so that a "
            "least-squares fit sees little else: take square roots or logarithms first."
        ]
    return []


def _count(number: int, one: str, several: str) -> str:
    return f"{number:,} {one if number == 1 else several}"
