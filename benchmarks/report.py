"""Writes docs/benchmarks.md and its figure from the stored results."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from benchmarks import missing, path, solvers, svd
from benchmarks.common import geometric_mean, load
from benchmarks.freshness import remark

DOCS = Path(__file__).parent.parent / "docs"
ORANGE, RED, GREY = "#e69138", "#b3263e", "#8a8a8a"


def main():
    """Write the page and the figure."""
    starts = load("solvers")
    draw(load("cpu-2-cores/to_equal_error")["rows"])
    (DOCS / "benchmarks.md").write_text(page(starts))
    on_data = DOCS / "missing.md"
    on_data.write_text(missing.with_section(on_data.read_text(encoding="utf-8")))


def page(starts):
    """The page as Markdown."""
    environment = load("cpu-2-cores/to_equal_error")["environment"]
    low, high = solvers.mean_differences(starts["runs"])
    versions = ", ".join(
        f"{name} {environment[name]}" for name in ("numpy", "scipy", "numba", "scikit-learn")
    )
    return f"""# Benchmarks

{environment["cpu"]}, {environment["cores"]} cores, {environment["blas"][0]} with
{environment["threads"][0]} threads, Python {environment["python"]}, {versions}. Under each table are the date and the
commit of the measurement, and whether the measured code has changed since. Times are the minimum of several rounds,
with contenders alternating. Remake with `python -m benchmarks cpu`, `cores`, `starts`, `gpu`, `solvers` and then `report`;
`python -m benchmarks quick` is a two-minute check on generated data.

## To equal error

Plain HALS runs from a start until no component moves by more than 1e-4; scikit-learn's coordinate descent
(`NMF(solver="cd", tol=0)`) runs as many iterations from the same start and reaches the same error, because its
iterates are the same. How long does the accelerated solver take to reach that error? If it converges to another
local optimum that is higher (*reached* False, open circles), the time is that of its whole run. Lines are
geometric means.

![Times faster than scikit-learn to equal error](figures/benchmarks.png)

{part("to_equal_error")}

## One iteration

The floor is the minimum work of an iteration: two cross products and two Grams in BLAS. All are on one thread.

{part("per_iteration")}

## NMF-Merge against plain HALS

Both from NNDSVD, `nmf_merge` with `n_init=1`, other settings at their defaults.

{part("merge_pipeline")}

## Which solver is the default, and why

Fitting error in percent (mean ± standard deviation over random starts) of plain and accelerated HALS, in `nmf`
and in `nmf_merge`, `tol` = 1e-4. The accelerated solver is plain HALS until components move by less than 1e-2,
so in `nmf_merge` with its default tolerances it matters in the final stage only. These runs are of commit
{starts["environment"]["commit"]}, on a busy machine: use their errors, and the tables above for times.

{solvers.table(starts["runs"])}

Over all data sets, the mean error of the accelerated `nmf` is between {low:+.4f} and {high:+.4f} percentage
points of plain HALS's, which is within its standard error or below; and it is faster on all of them. Therefore it
is the default of `nmf`, `nmf_merge` and `NMFMerge`.

## Threads

During a fit BLAS has one thread, whose bits do not depend on others. Parts of long products, and of sweeps over many
columns, are shared with threads of our own that are idle; short iterations are one compiled call on one thread. An
iteration of HALS and a whole `nmf_merge` from one start, with default threads and with one thread.
The floor is four BLAS products with all threads; for sparse data, the two sparse products.

{part("threads")}

{part("threads", 16)}

## Several starts

`nmf_merge` from many random starts, on one thread and on all cores. Each start goes through all stages by itself, in a
thread where one is idle, and has the same bits on any number of them.

{stored("cores-2/starts")}

{stored("cores-16/starts")}

On 16 cores the small sets lose time to the parts of a start that are Python, which runs in one thread at a time. The
passes over CBCL consist of single operations, as its products are long enough to be shared. When this was measured, its
16 threads waited for one another between these operations, many of which are one now where no thread is idle.

The default, the best of four starts, against one start of scikit-learn's `NMF`: with enough iterations
(`max_iter=10_000`), and with its default of 200, where it may stop before it has converged. An error ratio above 1 means
that ours is higher.

{stored("starts/default")}

## On a busy machine

A fit on one thread, on all cores, and while every core of the machine runs another process, with processor time beside
wall time:

{stored("cores-2/busy")}

{stored("cores-16/busy")}

Eight processes that fit at the same time:

{stored("cores-2/at_once")}

{stored("cores-16/at_once")}

A process that may use 2 of 16 cores, 32 starts on the same data:

{stored("cores-16/limited")}

## On a GPU

The paper's whole figure (a): standard NMF and NMF-Merge from 200 random starts of each data set, float64, in seconds.
The first call of a process compiles kernels.

{stored("gpu/figure_a")}

One iteration of the accelerated solver, with four sweeps over each factor, 200 starts, in milliseconds, and its
parts measured alone.

{stored("gpu/iteration")}

One iteration on 100,000 × 20,000 dense float32, r = 64, against its two cross products, in milliseconds. With TF32 the
error after the same iterations is higher.

{stored("gpu/large_iteration")}

The difference of the factors after 100 iterations from the same start, relative to the largest entry of each component.

{stored("gpu/agreement")}

Whole fits of Poisson counts (96 × 2780) by the Kullback–Leibler loss, float32, to `tol` = 1e-4: 100 starts at once, and
one resample of the counts.

{stored("gpu/kullback_leibler")}

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

Peak of NumPy's allocations without X, in units of W and H together; X is never copied.

{part("memory")}

## First call

{part("first_call")}
{on_kl()}{on_missing()}{on_programs()}{on_signatures()}{on_consensus()}{path.section()}{svd.section()}"""


KL = {
    "to_equal_loss": 'Time of scikit-learn\'s `NMF(solver="mu")` divided by the time that ours takes to reach its loss, '
    "from the\nsame random start, one thread each; medians over starts. *reached* counts the starts from which ours got "
    "there;\nthe others ended in another optimum, and count with their time to the end.",
    "merging": "`nmf_merge` against `nmf` from the same random starts, `tol` = 1e-4: error in percent of the deviance, "
    "starts from\nwhich merging is more than 0.1 % lower or higher, and CPU time.",
    "both_losses": "`nmf_merge` by either loss on generated counts of mutations: cosine of the signature that is "
    "recovered worst.",
    "corpus": "Generated counts of the shapes of 20 Newsgroups and of 68 thousand blood cells, r = 10: an iteration, and a "
    "fit to\n`tol` = 1e-4.",
}


def on_kl():
    """The parts of the benchmark of Kullback–Leibler that are stored."""
    parts = {name: stored(f"kl/{name}") for name in KL}
    text = "\n\n".join(f"{KL[name]}\n\n{table}" for name, table in parts.items() if table)
    head = "\n## The Kullback–Leibler loss\n\nRemake with `python -m benchmarks kl`.\n\n"
    return f"{head}{text}\n" if text else ""


MISSING = {
    "time": "`nmf` with a tenth of the entries missing, and of the whole data, from the same random starts. The fits "
    "end in\ndifferent optima after different numbers of iterations; errors are of the observed entries.",
    "ratings": "Generated ratings in the shape of MovieLens 100k (943 × 1682, 6.3 % rated), r = 10: error of ratings "
    "that no fit\nhas seen, where what is not rated is missing, and where it counts as zero.",
    **missing.REAL,
}


def on_missing():
    """The benchmark of missing values, where it is stored."""
    parts = {name: stored(f"missing/{name}") for name in MISSING}
    text = "\n\n".join(f"{MISSING[name]}\n\n{table}" for name, table in parts.items() if table)
    head = "\n## Missing values\n\nRemake with `python -m benchmarks missing`.\n\n"
    return f"{head}{text}\n" if text else ""


def on_programs():
    """The benchmark of gene programmes, where it is stored."""
    content = load("programs")
    if content is None:
        return ""
    ranks, n_fits = content["ranks"], content["n_fits"]
    stable, ours = (
        sum(row[name] for row in content["matched"]) for name in ("stable in cNMF", "of these ours")
    )
    return f"""
## Gene programmes

The whole job on 2,700 blood cells (pbmc3k), beside cNMF: {n_fits} fits at each of the ranks {ranks}, in seconds. Of the
{stable} programmes that cNMF finds stably, {ours} are among ours, with a cosine of at least 0.95. Remake with
`python -m benchmarks programs {ranks} {n_fits}`.

{stored("programs")}
"""


def on_signatures():
    """The benchmark of mutational signatures, where it is stored."""
    content = load("signatures")
    if content is None:
        return ""
    n_fits, seeds = content["n_fits"], content["seeds"]
    return f"""
## Mutational signatures

Generated catalogues of known truth, {n_fits} fits at each number of signatures from 1 to {content["n_max"]}, from
{len(seeds)} seeds: the number chosen, how many of the true signatures are found (cosine at least 0.9) and how many are
false, seed by seed; whether all seeds give the same signatures; and seconds of the whole job. Remake with
`python -m benchmarks signatures {",".join(map(str, seeds))} {n_fits}`.

{stored("signatures")}
"""


def on_consensus():
    """How many fits a consensus needs, where it is stored."""
    table = stored("consensus/fits")
    if not table:
        return ""
    return f"""
## How many fits a consensus needs

Consensus of fits by NMF and by NMF-Merge, from three seeds: components that are found, the least cosine of one with the
truth, agreement of the fits, and the least cosine of a component between two seeds. Remake with
`python -m benchmarks consensus fits`.

{table}
"""


DASK = {
    "iterations": "An iteration with r = 20 on 200,000 × 500 dense values and on 500,000 × 2,000 with 10⁷ stored "
    "values, float64, against\nthe same iteration in memory on one thread, in milliseconds. CPU is that of client, "
    "scheduler and workers together.",
    "overhead": "A tiny problem (6,400 × 40, r = 4) in 64 chunks: the overhead of an iteration.",
    "streaming": "4 GB of Zarr (float32, not compressed, chunks of 20 MB; the machine has it in its cache) through "
    "two workers\nwith a memory limit of 1 GB, r = 20, plain HALS.",
    "factors": "Memory of a fit in threads, without X, in units of its long factor "
    "(1,000,000 × 12, r = 10, k = 2).",
    "agreement": "`nmf_merge` with its defaults, in eight chunks, against the same fit in memory.",
    "growth": "Tasks known to the scheduler during a fit of 500 iterations.",
    "on_paper": "CPU time of a pass over a chunk of a large sparse problem, float32, and an estimate for the whole "
    "on many\ncores.",
    "faults": "Fits during which one of the two workers is killed (`kill -9`) at a random step, against an undisturbed fit.",
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
