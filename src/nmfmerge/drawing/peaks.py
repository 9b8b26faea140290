"""Which peaks of a spectrum get a label, and which entries of a component are listed."""

import numpy as np

N_TOP = 6
_MOST = 4  # labels
_LEAST = 0.15  # of the largest: a smaller peak gets no label
_APART = 0.07  # of the axis: two labels beside each other


def labelled_peaks(x: np.ndarray, y: np.ndarray) -> list[int]:
    """Indices of the largest entries, few and far enough from each other to write beside them."""
    top = float(y.max(initial=0))
    width = float(np.ptp(x)) if len(x) else 0.0
    chosen: list[int] = []
    for i in np.argsort(-y, kind="stable")[:200].tolist():
        if top <= 0 or y[i] < _LEAST * top or len(chosen) == _MOST:
            break
        if all(abs(float(x[i] - x[j])) >= _APART * width for j in chosen):
            chosen.append(i)
    return chosen


def top_entries(strength: np.ndarray, most: int = N_TOP) -> np.ndarray:
    """The entries that are listed for a component, the strongest first."""
    return np.argsort(-strength, kind="stable")[:most]
