"""Compare two fits of the same data: errors, components matched one to one, mismatch."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge import metrics
from nmfmerge.cli.common import OK, print_outcome
from nmfmerge.losses import LOSSES
from nmfmerge.storage.files import replacing
from nmfmerge.storage.folder import Fit, FolderError, read
from nmfmerge.storage.provenance import same_data, same_weights


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `compare`."""
    parser.add_argument("first", type=Path, metavar="DIR", help="folder written by `fit`")
    parser.add_argument("second", type=Path, metavar="DIR", help="folder to compare it with")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw both to a PNG file")


def run(given: argparse.Namespace) -> int:
    """Compare two fits and draw them."""
    first, second = read(given.first), read(given.second)
    shapes = [(len(fit.result.W), fit.result.H.shape[1]) for fit in (first, second)]
    if shapes[0] != shapes[1]:
        raise FolderError(
            f"{given.first} is a fit of a {shapes[0][0]} × {shapes[0][1]} matrix and "
            f"{given.second} of a {shapes[1][0]} × {shapes[1][1]} matrix: compare fits of the same "
            "data"
        )
    if first.result.n_components != second.result.n_components:
        raise FolderError(
            f"{given.first} has {first.result.n_components} components and {given.second} "
            f"{second.result.n_components}: merge one down first, with `nmfmerge merge`"
        )
    outcome = _compare(first, second)
    if given.figure is not None:
        from nmfmerge import plot  # the drawing library loads for a second
        from nmfmerge.report.pages import png

        with replacing(given.figure) as opened:
            opened.write(png(plot.comparison(first.result, second.result, first.data)))
    print_outcome(given, outcome, _text(given, outcome))
    return OK


def _compare(first: Fit, second: Fit) -> dict[str, Any]:
    W1, W2 = first.result.W, second.result.W
    order, similarity = metrics.match_components(W1, W2)
    return {
        "losses": [first.result.loss, second.result.loss],
        "fitting_errors": [first.result.fitting_error, second.result.fitting_error],
        "n_starts": [max(1, len(fit.result.starts)) for fit in (first, second)],
        "matched": (order + 1).tolist(),
        "similarity": similarity.tolist(),
        "subspace_mismatch": metrics.subspace_mismatch(W1, W2),
        "permutation_mismatch": metrics.permutation_mismatch(W1, W2),
        "same_data": same_data(first, second),
        "same_weights": same_weights(first, second),
    }


def _text(given: argparse.Namespace, outcome: dict[str, Any]) -> str:
    similarity = np.array(outcome["similarity"])
    kept = [f", best of {n} starts" if n > 1 else "" for n in outcome["n_starts"]]
    losses = outcome["losses"]
    differ = losses[0] != losses[1]
    of = [f" of {LOSSES[loss].words.error_of}" if differ else "" for loss in losses]
    lines = [
        f"fitting error  {outcome['fitting_errors'][0]:.6g} %{of[0]}  {given.first}{kept[0]}",
        f"               {outcome['fitting_errors'][1]:.6g} %{of[1]}  {given.second}{kept[1]}",
        f"subspace mismatch     {outcome['subspace_mismatch']:.3g}",
        f"permutation mismatch  {outcome['permutation_mismatch']:.3g}",
        f"matched components: {np.sum(similarity > metrics.SAME_VECTOR)} of {similarity.size} with "
        f"a cosine above {metrics.SAME_VECTOR}, least {similarity.min():.4f}",
    ]
    lines += [
        f"  {i + 1:>3} – {j:<3} {cosine:.4f}"
        for i, (j, cosine) in enumerate(zip(outcome["matched"], similarity, strict=True))
    ]
    if differ:
        lines.append(
            f"careful: the first fit is by the loss {losses[0]} and the second by {losses[1]}, so "
            "their errors cannot be compared"
        )
    if outcome["same_data"] is False:
        lines.append("careful: the two fits are of different data files")
    if outcome["same_data"] is None:
        lines.append("careful: whether the two fits are of the same data is not known")
    if not outcome["same_weights"]:
        lines.append(
            "careful: entries count differently in the two fits (--weights), so their errors "
            "cannot be compared"
        )
    return "\n".join(lines)
