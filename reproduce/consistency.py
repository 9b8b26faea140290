"""Consistency: how alike the factors are that different starts lead to."""

from dataclasses import dataclass

import numpy as np

from reproduce.page import MERGE, STANDARD, Claim, Section, Verdict, log_limits, panels, percentage
from reproduce.pairs import Options, Outcomes, Pair, flat, random_pairs
from reproduce.runs import Run
from reproduce.sets import FACES, SETS
from reproduce.store import Store

TITLE = "Consistency: do different starts lead to the same components?"
NAME = "mismatches"  # in the store
SAME_ERROR = 1e-5  # percentage points
FLOOR = 1e-9  # W is stored with 16 significant bits
SAME_SPACE = 1e-3
SETTLED = 0.99  # of the pairs in the same space: nothing is left to improve
SHOWN = 3000  # points in a scatter plot
LARGE = 20  # starts on large data: more W would take too much room


def plan(options: Options) -> list[Run]:
    """Random starts of HALS, tolerance 1e-4 in all stages: those of the comparison, or the first."""
    return [run for data in options.data for run in flat(pairs(options, data))]


def pairs(options: Options, data: str) -> list[Pair]:
    """The pairs whose W are compared: on large data the first of them."""
    return random_pairs(data, options.seeds(data, large=LARGE))


def compared(options: Options) -> list[Run]:
    """The runs whose W is compared: all."""
    return plan(options)


@dataclass(frozen=True)
class Mismatches:
    """All pairs of starts of one method: how far apart their W and their errors are."""

    subspace: np.ndarray
    permutation: np.ndarray
    error: np.ndarray

    @property
    def same_error(self) -> np.ndarray:
        """Permutation mismatch of the pairs that fit equally well."""
        return self.permutation[self.error < SAME_ERROR]


def mismatches(factors: list[np.ndarray], errors: list[float]) -> Mismatches:
    """Compare all pairs of W at once, as `nmfmerge.metrics` does one pair.

    With an orthonormal basis Q of W₂'s columns, ‖W₁ − W₂W₂⁺W₁‖² = ‖W₁‖² − ‖QᵀW₁‖².
    """
    units = [_unit_columns(W.astype(np.float64)) for W in factors]
    bases, inverses = zip(*(_basis(W) for W in units), strict=True)
    columns = np.hstack(units)
    n, r = len(units), units[0].shape[1]
    left_over, away = np.empty((n, n)), np.empty((n, n))
    sizes = np.array([np.sum(W**2) for W in units])
    for i in range(n):
        projections = (bases[i].T @ columns).reshape(r, n, r)
        left_over[i] = np.maximum(sizes - np.sum(projections**2, axis=(0, 2)), 0)
        away[i] = _from_permutation((inverses[i] @ columns).reshape(r, n, r).transpose(1, 0, 2))
    first, second = np.triu_indices(n, 1)
    errors = np.asarray(errors)
    return Mismatches(
        left_over[first, second] + left_over[second, first],
        (away[first, second] + away[second, first]) / 2,
        np.abs(errors[first] - errors[second]),
    )


def _unit_columns(W: np.ndarray) -> np.ndarray:
    norm = np.linalg.norm(W, axis=0)
    return W / np.where(norm > 0, norm, 1)


def _basis(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of W's columns, padded with zeros, and the pseudoinverse of W."""
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    kept = s > np.finfo(np.float64).eps * max(W.shape) * s[0]
    inverse = np.divide(1, s, out=np.zeros_like(s), where=kept)
    return U * kept, (Vt.T * inverse) @ U.T


def _from_permutation(R: np.ndarray) -> np.ndarray:
    """Distance of each matrix of a stack from a permutation."""
    entries = np.sum(R**2 * (R - 1) ** 2, axis=(1, 2))
    rows, columns = R.sum(axis=2) - 1, R.sum(axis=1) - 1
    return entries + np.sum(rows**2, axis=1) + np.sum(columns**2, axis=1)


def report(store: Store, options: Options) -> Section:
    """Histograms and scatter plots of the mismatches, their medians, and the claims."""
    section = Section(TITLE)
    found = {data: _compare(store, options, data) for data in options.data}
    found = {data: both for data, both in found.items() if both}
    if not found:
        return section
    section.say(
        f"All pairs of random starts with HALS, tolerance 1e-4 in all stages. Subspace mismatch is zero when two W span the "
        f"same space (drawn from {FLOOR:g} up, for W is stored with 16 significant bits, of MHLL with 24, of the faces with 8), permutation mismatch when "
        f"they have the same columns in another order; the latter for pairs whose fitting errors differ by less than "
        f"{SAME_ERROR:g} percentage points. Medians, standard NMF / NMF-Merge."
    )
    section.table(
        ["data", "pairs", "subspace mismatch", f"pairs in the same space (< {SAME_SPACE:g})",
         "pairs of equal error", "their permutation mismatch"],
        [_row(data, *both) for data, both in found.items()],
    )  # fmt: skip
    section.show("consistency", "Above: distribution of the subspace mismatch. Below: the mismatch of a pair of starts against the "
                 "difference of its fitting errors.", _draw_subspaces(found))  # fmt: skip
    section.show(
        "permutation",
        "Permutation mismatch of pairs that fit equally well.",
        _draw_permutations(found),
    )
    section.claims += _claims(found)
    return section


def _compare(store: Store, options: Options, data: str) -> tuple[Mismatches, Mismatches] | None:
    found = Outcomes.stored(store, pairs(options, data)).pairs
    if not all(store.has_derived(NAME, list(runs)) for runs in zip(*found, strict=True)):
        found = [both for both in found if all(store.has(run, factors=True) for run in both)]
    if len(found) < 2:
        return None
    standard, merge = (list(runs) for runs in zip(*found, strict=True))
    return _stored_mismatches(store, standard), _stored_mismatches(store, merge)


def _stored_mismatches(store: Store, runs: list[Run]) -> Mismatches:
    def compute() -> dict[str, np.ndarray]:
        errors = [store.get(run)["error"] for run in runs]
        return vars(mismatches([store.factors(run) for run in runs], errors))

    return Mismatches(**store.derived(NAME, runs, compute))


def _row(data: str, standard: Mismatches, merge: Mismatches) -> list[str]:
    both = standard, merge
    return [
        SETS[data].title,
        str(standard.error.size),
        " / ".join(_number(np.median(method.subspace)) for method in both),
        " / ".join(
            percentage((method.subspace < SAME_SPACE).sum(), method.subspace.size)
            for method in both
        ),
        " / ".join(str(method.same_error.size) for method in both),
        " / ".join(_number(_median(method.same_error)) for method in both),
    ]


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else np.nan


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.2g}"


def _draw_subspaces(found: dict):
    figure, axes = panels(2, len(found))
    rng = np.random.default_rng(0)
    for (above, below), (data, both) in zip(axes.T, found.items(), strict=True):
        _histograms(above, [method.subspace for method in both])
        above.set_title(SETS[data].title)
        for method, colour in zip(both, (STANDARD, MERGE), strict=True):
            some = rng.permutation(method.error.size)[:SHOWN]
            x, y = (np.maximum(values[some], FLOOR) for values in (method.error, method.subspace))
            size, alpha = (2, 0.35) if x.size > 500 else (12, 0.8)
            below.scatter(x, y, s=size, lw=0, alpha=alpha, color=colour)
        below.set(xscale="log", yscale="log", xlabel="difference of errors, points")
        below.set_xlim(log_limits(np.maximum(np.concatenate([m.error for m in both]), FLOOR)))
        below.set_ylim(log_limits(np.maximum(np.concatenate([m.subspace for m in both]), FLOOR)))
    axes[0, 0].set_ylabel("pairs")
    axes[1, 0].set_ylabel("subspace mismatch")
    axes[0, 0].legend(["standard", "NMF-Merge"], loc="upper left")
    return figure


def _draw_permutations(found: dict):
    figure, axes = panels(1, len(found))
    for axis, (data, both) in zip(axes[0], found.items(), strict=True):
        values = [method.same_error for method in both]
        if any(part.size for part in values):
            _histograms(axis, values)
        else:
            axis.text(0.5, 0.5, "no such pairs", ha="center", transform=axis.transAxes, fontsize=8)
            axis.set(xticks=[], yticks=[])
        axis.set_title(SETS[data].title)
        axis.set_xlabel("permutation mismatch")
    axes[0, 0].set_ylabel("share of pairs")
    return figure


def _histograms(axis, values: list[np.ndarray]) -> None:
    limits = log_limits(np.maximum(np.concatenate(values), FLOOR))
    bins = np.geomspace(*limits, 30)
    for part, colour in zip(values, (STANDARD, MERGE), strict=True):
        weights = np.full(part.size, 1 / max(part.size, 1))
        axis.hist(np.maximum(part, FLOOR), bins, weights=weights, color=colour, alpha=0.55)
    axis.set(xscale="log", xlim=limits)


def _claims(found: dict) -> list[Claim]:
    separable = {data: both for data, both in found.items() if data not in FACES}
    faces = {data: both for data, both in found.items() if data in FACES}
    unsettled = {
        data: both for data, both in separable.items() if min(map(_same_space, both)) < SETTLED
    }
    comparable = {
        data: both
        for data, both in separable.items()
        if all(method.same_error.size for method in both)
    }

    def listed(cases, of):
        return ", ".join(
            f"{SETS[data].title} {of(standard)} → {of(merge)}"
            for data, (standard, merge) in cases.items()
        )

    def share(method):
        return percentage(_same_space(method), 1)

    def permutation(method):
        return _median(method.same_error)

    return [
        Claim(
            "NMF-Merge makes factorizations more consistent on LC-MS and audio.",
            Verdict.of(
                [
                    _same_space(merge) > _same_space(standard)
                    for standard, merge in unsettled.values()
                ]
            ),
            f"pairs of starts in the same space (mismatch below {SAME_SPACE:g}): {listed(separable, share)}",
        ),
        Claim(
            "On the faces consistency is about the same.",
            Verdict.of(
                [
                    0.8 < np.median(m.subspace) / np.median(s.subspace) < 1.25
                    for s, m in faces.values()
                ]
            ),
            f"median subspace mismatch {listed(faces, lambda method: _number(np.median(method.subspace)))}",
        ),
        Claim(
            "Among equally good fits, NMF-Merge's differ less from a permutation on LC-MS and audio.",
            Verdict.of([permutation(m) < permutation(s) for s, m in comparable.values()]),
            f"median permutation mismatch {listed(comparable, lambda method: _number(permutation(method)))}",
        ),
    ]


def _same_space(method: Mismatches) -> float:
    """Share of the pairs whose W span the same space."""
    return float(np.mean(method.subspace < SAME_SPACE))
