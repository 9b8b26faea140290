"""Draws README's figure: ``python docs/figures/readme.py`` (needs matplotlib)."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from nmfmerge import datasets, nmf, nmf_merge

ORANGE, RED, GREY = "#e69138", "#b3263e", "#8a8a8a"
N_STARTS = 40

data = datasets.lcms_like()
traces = {}


def fit(function, seed):
    trace = []
    result = function(
        data.X,
        data.n_components,
        init="random",
        n_init=1,
        random_state=seed,
        callback=lambda p: trace.append((p.stage, p.fitting_error)),
    )
    traces[function, seed] = trace
    return result.fitting_error


standard = np.array([fit(nmf, seed) for seed in range(N_STARTS)])
merged = np.array([fit(nmf_merge, seed) for seed in range(N_STARTS)])

plt.rcParams.update({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False})
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1), layout="constrained")

limits = 0.95 * min(standard.min(), merged.min()), 1.03 * max(standard.max(), merged.max())
left.plot(limits, limits, color=GREY, lw=0.8, ls="--", zorder=0)
left.scatter(merged, standard, s=22, color=RED, alpha=0.55, linewidths=0)
left.set(
    xlim=limits,
    ylim=limits,
    aspect="equal",
    xlabel="NMF-Merge, fitting error (%)",
    ylabel="standard NMF, fitting error (%)",
    title=f"{N_STARTS} random starts, one LC-MS run",
)
left.text(0.28, 0.97, "NMF-Merge better", transform=left.transAxes, va="top", color=GREY)

seed = int(np.argmax(standard - merged))
for function, colour, label in ((nmf, ORANGE, "standard NMF"), (nmf_merge, RED, "NMF-Merge")):
    trace = traces[function, seed]
    right.plot([error for _, error in trace], color=colour, label=label, lw=1.6)
stages = [stage for stage, _ in traces[nmf_merge, seed]]
right.axvspan(
    stages.index("overcomplete"), stages.index("final"), color=RED, alpha=0.12, lw=0,
    label="over-complete",
)  # fmt: skip
right.set(
    xscale="log",
    yscale="log",
    xlabel="iteration",
    ylabel="fitting error (%)",
    title="One of the starts",
)
right.legend(frameon=False, loc="lower left", fontsize=8)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=160)
print(f"mean: standard {standard.mean():.4f}, NMF-Merge {merged.mean():.4f}")
print(f"best: standard {standard.min():.4f}, NMF-Merge {merged.min():.4f}")
print(f"better on {np.sum(merged < standard - 1e-3)}, worse on {np.sum(merged > standard + 1e-3)}")
