"""Writes docs/benchmarks.md and its figure from the stored results."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks import path, solvers, svd
from benchmarks.common import geometric_mean, load
from benchmarks.freshness import remark

DOCS = Path(__file__).parent.parent / "docs"
ORANGE, RED, GREY = "#e69138", "#b3263e", "#8a8a8a"


def main():
    """Write the page and the figure."""
    starts = load("solvers")
    draw(load("cpu-2-cores/to_equal_error")["rows"])
    (DOCS / "benchmarks.md").write_text(page(starts))


def page(starts):
    """The page as Markdown."""
    environment = load("cpu-2-cores/to_equal_error")["environment"]
    low, high = solvers.mean_differences(starts["runs"])
    versions = ", ".join(
        f"{name} {environment[name]}" for name in ("numpy", "scipy", "numba", "scikit-learn")
    )
    return f"""# Benchmarks

{environment["cpu"]}, {environment["cores"]} cores, {environment["blas"][0]} with
{environment["threads"][0]} threads, Python {environment["python"]}, {versions}. Under each table stands when and at which
commit it was measured, and whether the code that it measures has changed since. Times are the least of several turns,
contenders alternating. Remake with `python -m benchmarks cpu`, `starts`, `gpu`, `solvers` and then `report`;
`python -m benchmarks quick` is a two-minute check on generated data.

## To equal error

Plain HALS runs from a start until no component moves by more than 1e-4; scikit-learn's coordinate descent
(`NMF(solver="cd", tol=0)`) runs as many iterations from the same start and ends at the same error, for its
iterates are the same. How long does the accelerated solver take to that error? Where it converges to another
local optimum that is higher (*reached* False, open circles), the time is that of its whole run. Lines are
geometric means.

![Times faster than scikit-learn to equal error](figures/benchmarks.png)

{part("to_equal_error")}

## One iteration

The floor is what an iteration cannot do without: two cross products and two Grams in BLAS.

{part("per_iteration")}

## NMF-Merge against plain HALS

Both from NNDSVD, `nmf_merge` with `n_init=1`, other settings as they are by default.

{part("merge_pipeline")}

## Which solver is the default, and why

Fitting error in percent (mean ± standard deviation over random starts) of plain and accelerated HALS, in `nmf`
and in `nmf_merge`, `tol` = 1e-4. The accelerated solver is plain HALS until components move by less than 1e-2,
so in `nmf_merge` with its default tolerances it is at work in the final stage only. These runs are of commit
{starts["environment"]["commit"]}, and other work ran beside them: trust their errors, and the tables above for times.

{solvers.table(starts["runs"])}

Over all data sets, the mean error of the accelerated `nmf` is between {low:+.4f} and {high:+.4f} percentage
points of plain HALS's, which is within its standard error or below; and it is faster everywhere. Therefore it
is the default of `nmf`, `nmf_merge` and `NMFMerge`.

## Threads

BLAS gets a part of the cores for the time of a fit, by the size of its products; kernels and sparse products have
threads of their own. An iteration of HALS and a whole `nmf_merge`, with nothing set by the user and with one thread.
The floor is four BLAS products with all threads; for sparse data, the two sparse products.

{part("threads")}

{part("threads", 16)}

## Several starts

Twenty starts of `nmf_merge` carried through together (`n_init=20`) and one by one; the errors of both agree.

{stored("starts/batched")}

The default, the best of four starts, against one start of scikit-learn's `NMF`: with enough iterations
(`max_iter=10_000`), and with its default of 200, where it may stop before it has converged. An error ratio above 1 means
that ours is higher.

{stored("starts/default")}

The same default beside as many busy processes as the machine has cores, and processor time beside wall time:

{stored("starts/busy")}

## On a GPU

All of the paper's figure (a): standard NMF and NMF-Merge from 200 random starts of each data set, float64, in seconds.
The first call of a process compiles kernels.

{stored("gpu/figure_a")}

One iteration of the accelerated solver, with four sweeps over each factor, 200 starts, in milliseconds, and the parts of
it measured alone.

{stored("gpu/iteration")}

One iteration on 100,000 × 20,000 dense float32, r = 64, against its two cross products, in milliseconds. With TF32 the
error it comes to in the same iterations is higher.

{stored("gpu/large_iteration")}

How far factors are apart after 100 iterations from the same start, relative to the largest entry of each component.

{stored("gpu/agreement")}

## On Dask arrays

Two worker processes of one thread each; `python -m benchmarks dask` remakes it.

{on_dask()}

## Sparse data

Time to the error of 200 iterations of scikit-learn, from a random start.

{part("sparse")}

## Scaling

{part("scaling")}

## The merge alone

600 → 500 components, 100,000 long on each side.

{part("merge_alone")}

## Single precision

{part("single_precision")}

## Memory

Peak of what NumPy allocates beside X, in units of W and H together; X is never copied.

{part("memory")}

## First call

{part("first_call")}
{path.section()}{svd.section()}"""


DASK = {
    "iterations": "An iteration with r = 20 on 200,000 × 500 dense values and on 500,000 × 2,000 with 10⁷ stored "
    "values, float64, against\nthe same iteration in memory on one thread, in milliseconds. CPU is that of client, "
    "scheduler and workers together.",
    "overhead": "A tiny problem (6,400 × 40, r = 4) in 64 chunks: what an iteration costs beside the arithmetic.",
    "streaming": "4 GB of Zarr (float32, not compressed, chunks of 20 MB; the machine has it in its cache) through "
    "two workers\nwith a memory limit of 1 GB, r = 20, plain HALS.",
    "factors": "Memory that a fit in threads takes beside X, in units of its long factor "
    "(1,000,000 × 12, r = 10, k = 2).",
    "agreement": "The whole of `nmf_merge` with its defaults, in eight chunks, against the same in memory.",
    "growth": "Tasks that the scheduler knows of, during a fit of 500 iterations.",
    "on_paper": "CPU time of a pass over a chunk of a large sparse problem, float32, and what the whole would take "
    "on many\ncores.",
    "faults": "Fits during which one of the two workers is killed (`kill -9`) at a random step, against one that nothing happened to.",
}


def on_dask():
    """The parts of the Dask benchmark that are stored, each with a sentence before its table."""
    parts = {name: stored(f"dask/{name}") for name in DASK}
    return "\n\n".join(f"{DASK[name]}\n\n{table}" for name, table in parts.items() if table)


def part(name, cores=2):
    """A part of the CPU benchmark as a table, with where and when it was measured."""
    stored = load(f"cpu-{cores}-cores/{name}")
    if stored is None:
        return ""
    return f"{markdown(stored['rows'])}\n\n*{_place(f'cpu-{cores}-cores/{name}')}*"


def stored(name):
    """A stored benchmark as a table, with where and when it was measured."""
    content = load(name)
    if content is None:
        return ""
    return f"{markdown(content['rows'])}\n\n*{_place(name)}*"


def _place(name):
    """Where, when and at which commit a result was measured."""
    content = load(name)
    environment = content["environment"]
    machine = content.get("gpu", f"{environment['cpu']}, {environment['cores']} cores")
    return f"{machine}, {environment['date']}, commit {environment['commit']}{remark(name)}"


def markdown(rows):
    """A list of dictionaries as a Markdown table."""
    header = list(rows[0])
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    lines += ["| " + " | ".join(_cell(row.get(key)) for key in header) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value):
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def draw(rows):
    """Times faster than scikit-learn, a dot for each start, by data set."""
    rows = [row for row in rows if "start" in row]
    names = list(dict.fromkeys(row["data"] for row in rows))
    plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
    for y, name in enumerate(names):
        here = [row for row in rows if row["data"] == name]
        for reached, style in ((True, {"color": RED}), (False, {"color": "white", "ec": GREY})):
            x = [row["times faster"] for row in here if row["reached"] is reached]
            axes.scatter(x, np.full(len(x), y), s=34, alpha=0.8, zorder=2, **style)
        mean = geometric_mean(row["times faster"] for row in here)
        axes.plot([mean, mean], [y - 0.28, y + 0.28], color=ORANGE, lw=2, zorder=1)
    axes.axvline(1, color=GREY, lw=0.8, ls="--")
    axes.set(
        xscale="log",
        yticks=range(len(names)),
        yticklabels=names,
        xlabel="times faster than scikit-learn to equal error",
        xticks=[1, 2, 5, 10, 20, 50],
        xticklabels=["1", "2", "5", "10", "20", "50"],
    )
    axes.minorticks_off()
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    figure.savefig(DOCS / "figures" / "benchmarks.png", dpi=160)
