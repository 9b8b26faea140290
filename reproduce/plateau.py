"""Appendix A: an 8 × 8 matrix on which NMF stands still for thousands of iterations."""

import numpy as np

from nmfmerge import Progress, datasets, metrics, nmf, nmf_merge
from reproduce.one_run import MAX_ITER
from reproduce.page import GREY, MERGE, STANDARD, Claim, Section, Verdict, panels
from reproduce.pairs import Options
from reproduce.runs import Run
from reproduce.store import Store

TITLE = "Appendix A: plateaus"
TOL = 1e-8
EARLY = 100
PLATEAUS = ((20, 250), (350, 5200))  # of the paper, in iterations
SLOWER = 5  # how many times slower the error falls in a plateau than right after it


def plan(options: Options) -> list[Run]:
    """Nothing to store: the example takes a moment."""
    return []


def report(store: Store, options: Options) -> Section:
    """The objective against iterations, and the factors early, late and true."""
    section = Section(TITLE)
    example = datasets.paper_example()
    errors, early = [], {}

    def watch(progress: Progress) -> None:
        errors.append(progress.fitting_error)
        if progress.iteration == EARLY:
            early.update(W=progress.W.copy(), H=progress.H.copy())

    late = nmf(example.X, 4, solver="hals", tol=TOL, max_iter=MAX_ITER, callback=watch)
    merge = nmf_merge(
        example.X, 4, solver="hals", n_init=1, tol=TOL, tol_intermediate=1e-2, max_iter=MAX_ITER
    )
    true_W = example.W
    matched = {
        f"after {EARLY} iterations": _similarity(true_W, early["W"]),
        f"converged, {late.n_iter} iterations": _similarity(true_W, late.W),
    }
    section.say(
        f"HALS from NNDSVD on the paper's 8 × 8 matrix of rank 4, to a step of {TOL:g}: {late.n_iter} iterations, fitting "
        f"error {late.fitting_error:.2e} %. NMF-Merge ends at {merge.fitting_error:.2e} % after {merge.n_iter} iterations. "
        "Cosine similarity of W's columns with the truth, least of the four: "
        + ", ".join(f"{value:.4f} {name}" for name, value in matched.items())
        + "."
    )
    factors = {
        "ground truth": (true_W, example.H),
        f"after {EARLY} iterations": (early["W"], early["H"]),
        "converged": (late.W, late.H),
    }
    section.show("plateau", "Fitting error of HALS against iterations, the paper's plateaus shaded, and below the factors: W above "
                 "Hᵀ, columns scaled to a largest entry of one.", _draw(np.array(errors), factors, true_W))  # fmt: skip
    section.claims += _claims(np.array(errors), matched)
    return section


def _similarity(true: np.ndarray, found: np.ndarray) -> float:
    return float(metrics.match_components(true, found)[1].min())


def slope(errors: np.ndarray, begin: int, end: int) -> float:
    """Decades of error lost per decade of iterations, between two iterations."""
    return float(np.log10(errors[begin - 1] / errors[end - 1]) / np.log10(end / begin))


def _draw(errors: np.ndarray, factors: dict, true: np.ndarray):
    figure, axes = panels(2, 3, width=3, height=2.1)
    grid = axes[0, 0].get_gridspec()
    for axis in axes[0]:
        axis.remove()
    top = figure.add_subplot(grid[0, :])
    top.loglog(np.arange(1, errors.size + 1), errors, color=STANDARD, lw=1.5)
    for begin, end in PLATEAUS:
        top.axvspan(begin, end, color=GREY, alpha=0.15, lw=0)
    top.axvline(EARLY, color=MERGE, lw=0.8, ls=":")
    top.set(xlabel="iteration", ylabel="fitting error, %", ylim=(1e-4, 10), xlim=(1, 1e4))
    for axis, (name, (W, H)) in zip(axes[1], factors.items(), strict=True):
        order, _ = metrics.match_components(true, W)
        both = [F[:, order] / F[:, order].max(axis=0) for F in (W, H.T)]
        gap = np.full((1, both[0].shape[1]), np.nan)
        axis.imshow(
            np.vstack([both[0], gap, both[1]]).T, cmap="Greys", vmin=0, vmax=1, aspect="auto"
        )
        axis.set(title=name, xticks=[3.5, 12.5], xticklabels=["W", "H"], yticks=range(4),
                 yticklabels=range(1, 5))  # fmt: skip
        axis.tick_params(length=0)
    axes[1, 0].set_ylabel("component")
    return figure


def _claims(errors: np.ndarray, matched: dict) -> list[Claim]:
    def bend(end):
        return slope(errors, end, min(2 * end, errors.size))

    flat = [slope(errors, *_inside(plateau)) for plateau in PLATEAUS]
    fast = [bend(end) for _, end in PLATEAUS]
    values = list(matched.values())
    return [
        Claim(
            "NMF of the example stands still at about 20–250 and 350–5200 iterations.",
            Verdict.of([SLOWER * a < b for a, b in zip(flat, fast, strict=True)]),
            "decades of error per decade of iterations, in the two spans and after each: "
            + ", ".join(f"{a:.2f} then {b:.2f}" for a, b in zip(flat, fast, strict=True)),
        ),
        Claim(
            "Stopped in the first plateau the features differ from the truth; converged they do not.",
            Verdict.of([values[0] < 0.99, values[1] > 0.999]),
            ", ".join(f"least cosine {value:.4f} {name}" for name, value in matched.items()),
        ),
    ]


def _inside(plateau: tuple[int, int]) -> tuple[int, int]:
    """The middle of a span on a logarithmic axis: the paper gives its ends roughly."""
    begin, end = np.log(plateau)
    room = 0.2 * (end - begin)
    return round(np.exp(begin + room)), round(np.exp(end - room))
