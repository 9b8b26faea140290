"""Two solutions matched one to one: how alike the pairs are, and the pairs over each other."""

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D

from nmfmerge.datasets.base import Dataset
from nmfmerge.metrics import match_components
from nmfmerge.plot.side import Side, sides
from nmfmerge.plot.style import (
    BLUE,
    CRIMSON,
    INK,
    NOTE,
    ORANGE,
    SMALL,
    new_figure,
    tidy,
    words,
)

if TYPE_CHECKING:
    from nmfmerge.results.factorization import Factorization

MOST = 12


def comparison(
    first: "Factorization", second: "Factorization", data: Dataset | None = None
) -> Figure:
    """Draw two solutions of the same data and rank beside each other.

    Parameters
    ----------
    first, second : Factorization
        The solutions; components are matched by the cosines of the columns of W.
    data : Dataset, optional
        Its axes, as in `components`.

    Returns
    -------
    Figure
        Above, the cosine of each pair, in W (bars) and in H (dots). Below, pairs over each other:
        all, or the 12 that are least alike; ``first`` broad, ``second`` thin.
    """
    first, second = first.numpy(), second.numpy()
    if first.W.shape != second.W.shape or first.H.shape != second.H.shape:
        raise ValueError(
            f"first is W {first.W.shape}, H {first.H.shape} and second is W {second.W.shape}, H "
            f"{second.H.shape}; expected two factorizations of the same data and rank"
        )
    if first.n_components == 0:
        return words("There are no components to compare.")
    left, right = sides(first, data)
    order, cosine = match_components(first.W, second.W)
    by_share = np.argsort(-first.shares(), kind="stable")
    shown = _least_alike(cosine, by_share)
    height = max(left.height, right.height) * (1.5 if len(shown) <= 4 else 1.1)
    figure = new_figure(2.4 + 0.7 + height * len(shown))
    upper, lower = _halves(figure, 2.4, 0.7 + height * len(shown))
    _draw_cosines(upper, first, second, order, cosine, by_share)
    _draw_pairs(lower, first, second, order, shown, (left, right))
    return figure


def _halves(figure: Figure, *heights: float) -> tuple[SubFigure, SubFigure]:
    halves: Any = figure.subfigures(2, 1, height_ratios=heights)
    return halves[0], halves[1]


def _least_alike(cosine: np.ndarray, by_share: np.ndarray) -> np.ndarray:
    chosen = set(np.argsort(cosine, kind="stable")[:MOST].tolist())
    return np.array([k for k in by_share.tolist() if k in chosen])


def _draw_cosines(
    figure: SubFigure,
    first: "Factorization",
    second: "Factorization",
    order: np.ndarray,
    cosine: np.ndarray,
    by_share: np.ndarray,
) -> None:
    ax = figure.subplots()
    x = np.arange(len(by_share))
    in_H = _cosines(first.H, second.H[order])
    bars = ax.bar(x, cosine[by_share], width=0.7, color=BLUE, label="columns of W")
    (dots,) = ax.plot(
        x, in_H[by_share], "o", color=CRIMSON, ms=4.5, mec="white", mew=0.6, label="rows of H"
    )
    every = 1 if len(x) <= 30 else 2
    ax.set_xticks(x[::every], [str(k + 1) for k in by_share[::every]])
    ax.set(ylim=(0, 1.03), xlabel="component of the first solution", ylabel="cosine of the pair")
    tidy(ax)
    figure.legend(handles=[bars, dots], loc="outside upper right", ncols=2, fontsize=SMALL,
                  frameon=False)  # fmt: skip


def _cosines(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    A, B = A.astype(np.float64), B.astype(np.float64)
    norms = np.linalg.norm(A, axis=1) * np.linalg.norm(B, axis=1)
    return np.einsum("ij,ij->i", A, B) / np.where(norms > 0, norms, 1)


def _draw_pairs(
    figure: SubFigure,
    first: "Factorization",
    second: "Factorization",
    order: np.ndarray,
    shown: np.ndarray,
    both: tuple[Side, Side],
) -> None:
    axes = figure.subplots(len(shown), 2, squeeze=False)
    W1, H1 = _unit_W(first)
    W2, H2 = _unit_W(second)
    for row, k in zip(axes, shown.tolist(), strict=True):
        both[0].draw_pair(row[0], W1[:, k], W2[:, order[k]], (ORANGE, INK))
        both[1].draw_pair(row[1], H1[k], H2[order[k]], (ORANGE, INK))
        row[0].set_ylabel(f"{k + 1} and {order[k] + 1}", rotation=0, ha="right", va="center",
                          labelpad=8, fontsize=SMALL, color=INK)  # fmt: skip
    for column, name in ((0, "W"), (1, "H")):
        axes[0, column].set_title(f"{name}: {both[column].label}", fontsize=SMALL + 1)
        for ax in axes[:-1, column] if both[column].kind == "line" else ():
            ax.tick_params(labelbottom=False)
    _explain(figure, first.n_components, len(shown), any(s.kind == "picture" for s in both))


def _unit_W(result: "Factorization") -> tuple[np.ndarray, np.ndarray]:
    """Factors with columns of W of unit norm, the scale in H."""
    norm = np.linalg.norm(result.W.astype(np.float64), axis=0)
    return result.W / np.where(norm > 0, norm, 1), result.H * norm[:, None]


def _explain(figure: SubFigure, n: int, shown: int, pictures: bool) -> None:
    handles = [
        Line2D([], [], color=ORANGE, lw=2.6, label="first"),
        Line2D([], [], color=INK, lw=1.0, label="second"),
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, fontsize=SMALL,
                  frameon=False)  # fmt: skip
    remarks = [f"The {shown} pairs of {n} that are least alike."] * (shown < n)
    remarks += ["Pictures: first left, second right."] * pictures
    if remarks:
        figure.supxlabel(" ".join(remarks), fontsize=SMALL, color=NOTE)
