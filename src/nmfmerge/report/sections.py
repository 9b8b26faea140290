"""The sections of a page: each takes the context and returns HTML, or nothing where it has none."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from nmfmerge import plot
from nmfmerge.datasets.base import Dataset
from nmfmerge.metrics import SAME_COMPONENT, next_merges
from nmfmerge.plot.merges import leaf_names
from nmfmerge.plot.side import sides
from nmfmerge.report import stability
from nmfmerge.report.care import warnings_of
from nmfmerge.report.markup import bullets, code, facts, figure, paragraph, table, topics
from nmfmerge.report.verdict import verdict
from nmfmerge.report.words import count, ended, number, percent, seconds, several
from nmfmerge.results.about import About
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.rank_path import RankPath, two_digits
from nmfmerge.settings import SETTINGS

_HELD_OUT = (
    " Held-out error: that of entries which five more paths were fitted without, with its standard "
    "error; the assessment does not use it."
)
_WEIGHTED = "Every entry counts with its weight in the fitting errors on this page."


@dataclass(frozen=True, eq=False)
class ReportContext:
    """The contents of a page: the result, the data if available, and related results."""

    result: Factorization
    data: Dataset | None
    about: About
    figures: Mapping[str, Figure]
    path: RankPath | None = None
    consensus: Consensus | None = None

    @property
    def ranks(self) -> RankPath | Consensus | None:
        """The results at other ranks, where there are any."""
        return self.path if self.path is not None else self.consensus


def in_short(context: ReportContext) -> str:
    """The summary at the top of the page."""
    said = verdict(context.result, context.about, context.ranks)
    weighted = "" if context.about.weights is None else paragraph(_WEIGHTED)
    return f'<p class="lead">{_headline(context.result)}</p>' + weighted + topics(said)


def summary(context: ReportContext) -> str:
    """The data and the settings of the fit."""
    result, about = context.result, context.about
    m, n = about.shape or (len(result.W), result.H.shape[1])
    pairs: list[tuple[str, object]] = [("Matrix", f"{m:,} × {n:,}")]
    if context.data is not None:
        pairs += [("Rows", context.data.rows.label), ("Columns", context.data.columns.label)]
    pairs.append(("Components", result.n_components))
    if about.file is not None:
        pairs.insert(0, ("File", about.file))
    if about.weights is not None:
        pairs.append(("Weights", about.weights["file"]))
    pairs += [
        (SETTINGS[name].label if name in SETTINGS else name, value)
        for name, value in about.settings.items()
        if value is not None and name != "n_components"
    ]
    run: Factorization | Consensus = result
    n_iter = result.n_iter
    if context.consensus is not None:
        run = context.consensus
        n_iter = sum(int(at.n_iter.sum()) for at in run.results)
    pairs += [
        ("Iterations", f"{n_iter:,}"),
        ("Time", seconds(run.seconds)),
        ("Ended", ended(run.status)),
    ]
    described = (
        paragraph(context.data.description) if context.data and context.data.description else ""
    )
    stages = _stages(result) if context.consensus is None else ""
    return described + facts(pairs) + (bullets(about.notes) if about.notes else "") + stages


def _headline(result: Factorization) -> str:
    """How well it fits, in words; numbers only, so nothing to escape."""
    error = result.fitting_error
    noun = f"<strong>{count(result.n_components, 'component')}</strong>"
    if not np.isfinite(error):
        return f"{noun} were fitted to data that are all zero."
    if error < 1e-8:
        return f"{noun} fit the data <strong>exactly</strong>, up to rounding."
    kept = _kept(max(0.0, 100 - error))
    said = f"{noun} {result.words.headline.format(kept=kept, error=percent(error))}"
    return said + (f" All this is{result.missing_words}." if result.n_missing else "")


def _kept(kept: float) -> str:
    return "more than 99.99 %" if kept > 99.99 else f"{kept:.2f} %"


def _stages(result: Factorization) -> str:
    rows = (
        (
            stage.name,
            stage.n_components,
            f"{stage.n_iter:,}",
            percent(stage.fitting_error),
            seconds(stage.seconds),
            ended(stage.status),
        )
        for stage in result.stages
    )
    head = ("Stage", "Components", "Iterations", "Fitting error", "Time", "Ended")
    n = len(result.starts)
    of_best = f"The stages of the best start; times are those of all {n} starts together"
    return table(head, rows, of_best if n else "The stages of the run", text=(0, 5))


def rank(context: ReportContext) -> str:
    """The evidence for this number of components, if there is a path through all ranks."""
    path = context.path
    if path is None:
        return ""
    intro = paragraph(
        f"Ranks {path.ranks[0]} to {path.ranks[-1]} were fitted, each from its neighbours; this "
        f"page shows rank {context.result.n_components}."
    )
    said = paragraph(str(path.assess()))
    predicts = not np.isnan(path.held_out).all()
    drawn = figure(
        context.figures["rank-path"],
        "rank-path",
        f"Fitting error and merge penalty of ranks {path.ranks[0]} to {path.ranks[-1]}",
        "Merge penalty: what joining the two components that are easiest to join would change the "
        "fit by, in percent of the sum of squares of the data. Structure: how much more the "
        "residual has in common than noise of the same size; about 1 where only noise is left. "
        "Stability: cosine of the least alike pair of components, when both halves of the data are "
        "fitted alone." + (_HELD_OUT if predicts else ""),
    )
    rows = (
        (
            r,
            percent(result.fitting_error),
            "–" if np.isnan(penalty) else percent(penalty),
            *("–" if np.isnan(value) else f"{value:.2f}" for value in others),
            *([_with_spread(held, spread)] if predicts else []),
        )
        for (r, result), penalty, held, spread, *others in zip(
            path.items(), path.penalties, path.held_out, path.held_out_error, path.structure,
            path.stability, strict=True,
        )
    )  # fmt: skip
    head = ["Rank", "Fitting error", "Merge penalty", "Structure", "Stability"]
    head += ["Held-out error"] * predicts
    return intro + said + drawn + table(head, rows, "Every rank of the path")


def _with_spread(value: float, spread: float) -> str:
    return "–" if np.isnan(value) else f"{number(value)} ± {two_digits(spread)} %"


def starts(context: ReportContext) -> str:
    """The results of the other starts; nothing if there was only one."""
    result = context.result
    if not result.starts:
        return ""
    drawn = figure(
        context.figures["starts"],
        "starts",
        f"Fitting error of {len(result.starts)} starts, and the similarity of their components to "
        "those of the best",
        "Each row is a start. Left: by how much its error exceeds the best one, in percent of that "
        "(on a logarithmic scale). Right: similarity of its components to those of the best start, "
        "from 0 to 1 (the product of the cosines of their columns of W and rows of H, matched one "
        f"to one); from {SAME_COMPONENT} on, a component counts as found.",
    )
    return paragraph(stability.lead(result), _kept_start(result)) + drawn + _start_table(result)


def _kept_start(result: Factorization) -> str:
    kept = result.starts[result.best_start].name
    return f"This page shows the best of them, start {result.best_start + 1} ({kept})."


def _start_table(result: Factorization) -> str:
    rows = (
        (
            f"{i}, the best" if i == result.best_start + 1 else i,
            start.init,
            "–" if start.seed is None else start.seed,
            f"{start.fitting_error:.6g} %",
            f"{start.n_iter:,}",
            f"{start.n_found} of {result.n_components}",
            ended(start.status),
        )
        for i, start in enumerate(result.starts, 1)
    )
    head = (
        "Start", "Began with", "Seed", "Fitting error", "Iterations", "Components found", "Ended",
    )  # fmt: skip
    return table(head, rows, "Results of the starts", text=(0, 1, 6))


def fit(context: ReportContext) -> str:
    """X, WH and the residual."""
    if "reconstruction" not in context.figures:
        why = (
            "the data were streamed, and are never in memory as a whole."
            if context.about.streamed is not None
            else "this page was made from the factors alone, without the matrix X."
        )
        return paragraph(f"The data and the residual are not drawn: {why}")
    return figure(
        context.figures["reconstruction"],
        "reconstruction",
        "Three pictures side by side: the data X, the fit WH and the residual X − WH",
        _about_the_fit(context.result, context.data),
    )


def _about_the_fit(result: Factorization, data: Dataset | None) -> str:
    """The caption of the images of X, WH and the residual."""
    both = sides(result, data)
    if any(side.kind == "picture" for side in both):
        what = "Means of all images: of the data X, of the fit WH, and of what is left."
    elif any(side.logarithmic for side in both):
        return (
            "All three share one scale, in decibels below the loudest value; frequencies are on a "
            "logarithmic scale. Patterns in the residual are what the components miss."
        )
    else:
        what = "X and WH share one colour scale."
        what += " Nothing was observed where it is grey." * bool(result.n_missing)
    names = ("rows", "columns")
    moved = [name for name, side in zip(names, both, strict=True) if side.kind == "bars"]
    if moved:
        what += (
            f" {' and '.join(moved).capitalize()} have no order of their own: they are sorted by "
            "the component that they belong to most, so that components show as blocks."
        )
    return (
        f"{what} In the residual, red is where the data are larger than the fit and blue where "
        "they are smaller; patterns there are what the components miss."
    )


def convergence(context: ReportContext) -> str:
    """How the run went; nothing for one without iterations, as a consensus is."""
    if "convergence" not in context.figures:
        return ""
    return figure(
        context.figures["convergence"],
        "convergence",
        "Fitting error and step against time, with the stages shaded",
        "Above, the fitting error where it was computed: after each stage at least. Below, the "
        "largest relative change of a component in an iteration; a stage ends when it falls below "
        f"its tolerance.{' All of it is that of the best start.' * bool(context.result.starts)}",
    )


def merges(context: ReportContext) -> str:
    """The recovered and merged components, as figures and text."""
    result = context.result
    tree = result.merges
    if tree is None or len(tree.pairs) == 0:
        return paragraph("No components were merged in this run.")
    parts = [paragraph(_recovered(result))]
    if "singular-values" in context.figures:
        parts.append(
            figure(
                context.figures["singular-values"],
                "singular-values",
                f"{result.words.strengths[0].upper()}{result.words.strengths[1:]}",
                result.words.strength,
            )
        )
    parts.append(
        figure(
            context.figures["merges"],
            "merges",
            "Dendrogram of the merged components, and penalty of each merge",
            "Components before merging are numbered as in the over-complete solution; +1, +2, … "
            f"are the recovered ones. {result.words.penalty} "
            "Grey: what merging the final components further would cost.",
        )
    )
    if np.isfinite(result.penalty_size):  # else penalties are too large for numbers
        parts += [bullets(_merged_in_words(result)), _next(result)]
    return "".join(parts)


def _recovered(result: Factorization) -> str:
    tree, k = result.merges, len(result.generalized_singular_values)
    assert tree is not None
    found = f", after {count(k, 'component')} had been recovered from what was missing" if k else ""
    return (
        f"From {tree.n_leaves} components{found}, the closest pairs were merged until "
        f"{tree.n_components} were left. The final components are the merged ones, polished."
    )


def _merged_in_words(result: Factorization) -> list[str]:
    """One sentence for each final component that came from a merge."""
    tree = result.merges
    assert tree is not None
    names = leaf_names(result)
    size2 = result.penalty_size or 1.0
    leaves = {i: [i] for i in range(tree.n_leaves)}
    cost = dict.fromkeys(range(tree.n_leaves), 0.0)
    for t, (i, j) in enumerate(tree.pairs.tolist()):
        node = tree.n_leaves + t
        leaves[node] = leaves[i] + leaves[j]
        cost[node] = cost[i] + cost[j] + float(tree.penalties[t])
    return [
        f"Component {number_} was made of {several([names[i] for i in sorted(leaves[node])])} of "
        f"the components before the merge, at a penalty of {percent(100 * cost[node] / size2)} of "
        f"{result.words.whole}."
        for number_, node in enumerate(result.merge_ids, 1)
        if node >= tree.n_leaves
    ]


def _next(result: Factorization) -> str:
    tree = (
        next_merges(result.W, result.H, beta_loss=result.loss) if result.n_components > 1 else None
    )
    if tree is None or len(tree.pairs) == 0:
        return ""
    i, j = tree.pairs[0] + 1
    cost = 100 * tree.penalties[0] / (result.penalty_size or 1.0)
    return paragraph(
        f"The next merge, of components {i} and {j}, would cost {percent(cost)} of "
        f"{result.words.whole}; it was not done."
    )


def gain(context: ReportContext) -> str:
    """Standard NMF against NMF-Merge from the same starts; nothing if that was not measured."""
    compare = context.about.compare
    if not compare or not compare.get("standard_errors") or not compare.get("merge_errors"):
        return ""
    standard = np.asarray(compare["standard_errors"], dtype=np.float64)
    merged = np.asarray(compare["merge_errors"], dtype=np.float64)
    sentence = (
        f"The best fitting error of standard NMF was {percent(standard.min())} and of NMF-Merge "
        f"{percent(merged.min())}; the medians were {percent(float(np.median(standard)))} and "
        f"{percent(float(np.median(merged)))}."
    )
    if len(standard) == len(merged):
        lower = int(np.sum(merged < standard - 1e-3))
        higher = int(np.sum(merged > standard + 1e-3))
        sentence = (
            f"From {count(len(standard), 'start')}, NMF-Merge ended lower than standard NMF by "
            f"more than 0.001 percentage points {_times(lower)}, and higher {_times(higher)}. "
            + sentence
        )
    drawn = figure(
        plot.paired_starts(standard.tolist(), merged.tolist()),
        "gain",
        "Fitting error of standard NMF and of NMF-Merge for each start",
    )
    return paragraph(sentence) + drawn


def _times(n: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(n, f"{n} times")


def care(context: ReportContext) -> str:
    """Warnings about the result."""
    sentences = warnings_of(context.result, context.data, context.about, context.ranks)
    if not sentences:
        return paragraph("Nothing was found that calls for special care.")
    return bullets(sentences)


def repeat(context: ReportContext) -> str:
    """How to get the same result again."""
    about = context.about
    parts = []
    if about.command is not None:
        parts += [paragraph("This result came from:"), code(str(about.command))]
    pairs = [(str(name), value) for name, value in about.versions.items()]
    if about.date is not None:
        pairs.insert(0, ("Date", about.date))
    if about.data_sha256 is not None:
        pairs.append(("Data (SHA-256)", about.data_sha256))
    if about.weights is not None:
        pairs.append(("Weights (SHA-256)", about.weights["sha256"]))
    if about.data_sample_sha256 is not None:
        pairs.append(("Samples of the data (SHA-256)", about.data_sample_sha256))
    if pairs:
        parts.append(facts(pairs))
    if not parts:
        parts.append(paragraph("Nothing was recorded of how this result came about."))
    if context.data is not None and context.data.source:
        parts.append(paragraph(f"Data: {context.data.source}. {context.data.terms}".strip()))
    return "".join(parts)
