"""The section on the fits of a consensus: how they agree at each rank, and on each component."""

from nmfmerge.metrics import SAME_VECTOR
from nmfmerge.report.markup import figure, paragraph, table
from nmfmerge.report.sections import ReportContext
from nmfmerge.report.words import percent
from nmfmerge.results.consensus import Consensus, RankConsensus

_DRAWN = {
    None: "of the data themselves, from different random starts",
    "poisson": "each of Poisson counts drawn around the data",
    "rows": "each of nine tenths of the rows",
    "columns": "each of nine tenths of the columns",
}


def consensus(context: ReportContext) -> str:
    """How the fits agree; nothing if the result is no consensus."""
    result = context.consensus
    if result is None:
        return ""
    html = _intro(result, context.result.n_components)
    html += figure(
        context.figures["consensus"],
        "consensus",
        f"Silhouette, agreement and fitting error of ranks {result.ranks[0]} to {result.ranks[-1]}",
        "Silhouette: 1 if a component is the same in all fits, about 0 if it is no closer to its "
        "own kind than to another component. Fits that agree have every component of the "
        f"consensus, each with a cosine of at least {SAME_VECTOR}.",
    )
    html += _rank_table(result)
    rank = context.result.n_components
    if "clustergram" in context.figures:
        html += paragraph(f"The components of all fits at rank {rank}:") + figure(
            context.figures["clustergram"],
            "clustergram",
            "Cosines of the components of all fits, sorted by component; their local densities",
            "Left: each component of the consensus is a block on the diagonal. Right: the mean "
            "distance of each component to the nearest of all fits; those beyond the line are "
            "outliers, and were left out.",
        )
    return html + (_component_table(result.at(rank)) if rank in result else "")


def _intro(result: Consensus, rank: int) -> str:
    n_fits = max(at.n_fits for at in result.results)
    by = "NMF-Merge" if result.merge else "NMF"
    return paragraph(
        f"{n_fits} fits by {by} at each of {len(result)} ranks, {_DRAWN[result.resample]}; "
        f"components are the medians of those that were matched. This page shows rank {rank}."
    ) + paragraph(str(result.assess()))


def _rank_table(result: Consensus) -> str:
    rows = (
        (
            at.n_components, at.n_fits, percent(at.fitting_error), f"{at.silhouette:.3f}",
            f"{at.least_silhouette:.2f}", f"{100 * at.agreement:.0f} %", at.n_outliers,
        )
        for at in result.results
    )  # fmt: skip
    head = ("Rank", "Fits", "Fitting error", "Silhouette", "Least", "Fits that agree", "Outliers")
    return table(head, rows, "Every rank of the consensus", text=())


def _component_table(at: RankConsensus) -> str:
    rows = (
        (at.factorization.label(k), f"{silhouette:.3f}", f"{likeness:.3f}", f"{n} of {at.n_fits}")
        for k, (silhouette, likeness, n) in enumerate(
            zip(at.silhouettes, at.likeness, at.n_found(), strict=True)
        )
    )
    head = ("Component", "Silhouette", "Mean cosine", "Found in fits")
    return table(head, rows, "How the fits agree on each component")
