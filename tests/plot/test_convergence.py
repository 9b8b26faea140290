import itertools

import numpy as np

from nmfmerge import Factorization, Status, nmf, plot
from nmfmerge.plot.convergence import spans


def marks(ax):
    return [
        a.get_gid() for a in [*ax.patches, *ax.lines] if (a.get_gid() or "").startswith("stage ")
    ]


def test_stages_are_marked_and_named_with_their_errors(run):
    _, result = run
    figure = plot.convergence(result)
    upper, lower = figure.axes
    names = ["start", "initial", "recover", "overcomplete", "merge", "final"]
    for ax in (upper, lower):
        assert sorted(marks(ax)) == sorted(f"stage {name}" for name in names)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert [text.split(",")[0] for text in texts] == names
    assert texts[-1] == f"final, r = 5: {result.fitting_error:.4g} %"
    assert lower.get_xlabel() == "time (s)"


def test_lines_are_the_history(run):
    _, result = run
    upper, lower = plot.convergence(result).axes
    histories = [stage.history for stage in result.stages if stage.history is not None]
    assert len(histories) == 3
    for line, history in zip(lower.lines, histories, strict=False):
        positive = history.step > 0
        np.testing.assert_array_equal(line.get_xdata(), history.seconds[positive])
        np.testing.assert_array_equal(line.get_ydata(), history.step[positive])
    np.testing.assert_array_equal(upper.lines[0].get_ydata(), histories[0].fitting_error)
    (ends,) = [line for line in upper.lines if line.get_gid() == "stages"]
    np.testing.assert_array_equal(ends.get_ydata(), [s.fitting_error for s in result.stages[1:]])


def test_stages_follow_one_another_within_the_run(run):
    _, result = run
    times = spans(result)
    assert all(a.end <= b.begin for a, b in itertools.pairwise(times))
    assert times[-1].end <= result.seconds


def test_one_stage_without_errors_and_no_stage(plain_run):
    figure = plot.convergence(plain_run)
    upper, _ = figure.axes
    (ends,) = [line for line in upper.lines if line.get_gid() == "stages"]
    np.testing.assert_array_equal(ends.get_ydata(), [s.fitting_error for s in plain_run.stages[1:]])
    exact = plot.convergence(nmf(np.ones((4, 3)), 1))
    exact.draw_without_rendering()
    none = Factorization(np.ones((2, 1)), np.ones((1, 2)), 0.0, 0.0, (), Status.DONE, 0.0)
    assert "No stages" in plot.convergence(none).axes[0].texts[0].get_text()
