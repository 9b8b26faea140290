import io
import re

import numpy as np
import pytest

from nmfmerge import datasets, nmf, nmf_merge, rank_path
from nmfmerge.solvers import progress
from nmfmerge.solvers.progress import MERGED, ProgressBar, path_stages, section_stages


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def X():
    return datasets.lcms_like(40, 60, 6).X


@pytest.fixture
def every_time(monkeypatch):
    """Draw at every iteration."""
    monkeypatch.setattr(progress, "_SECONDS", 0.0)


def shown(stream):
    """What the bar showed: words, percent, remarks."""
    pattern = r"^(.*?)\s+(\d+) % \|.*\| [\d:]+(.*)$"
    found = (re.match(pattern, text.strip()) for text in stream.getvalue().split("\r"))
    return [(one[1], int(one[2]), one[3].strip(" ,")) for one in found if one]


@pytest.mark.usefixtures("every_time")
@pytest.mark.parametrize("n_init", [1, 3])
def test_a_bar_goes_through_all_stages_and_never_back(X, n_init):
    stream = Terminal()
    with ProgressBar(MERGED, stream) as bar:
        nmf_merge(X, 4, n_init=n_init, callback=bar)
    drawn = shown(stream)
    names = list(dict.fromkeys(words for words, _, _ in drawn if words))
    stages = ["start", "first fit", "adding components", "fit with extra components", "merging",
              "final fit"]  # fmt: skip
    assert names == stages if n_init == 1 else sorted(names) == sorted(stages)  # several go at once
    places = [place for _, place, _ in drawn]
    assert places == sorted(places)
    assert places[-1] == 100
    if n_init > 1:
        assert any("2 of 3 starts done" in remarks for _, _, remarks in drawn)


@pytest.mark.usefixtures("every_time")
def test_a_bar_shows_the_error(X):
    stream = Terminal()
    with ProgressBar(progress.PLAIN, stream) as bar:
        result = nmf(X, 4, callback=bar)
    assert shown(stream)[-1][2] == f"error {result.fitting_error:.4g} %"


def test_a_bar_does_not_change_the_result_and_asks_for_no_errors(X):
    alone, watched = nmf(X, 4), nmf(X, 4, callback=ProgressBar(progress.PLAIN, Terminal()))
    np.testing.assert_array_equal(alone.W, watched.W)
    assert np.isnan(watched.stages[-1].history.fitting_error[:-1]).mean() > 0.5


def test_where_nothing_can_be_redrawn_nothing_is_drawn(X):
    stream = io.StringIO()
    with ProgressBar(MERGED, stream) as bar:
        nmf_merge(X, 4, callback=bar)
    assert stream.getvalue() == ""
    bar.write("a message")
    assert stream.getvalue() == "a message\n"


def test_sections_have_stages_of_their_own():
    stream = Terminal()
    plan = {"reading": 1.0} | section_stages("standard", {"start": 1.0, "final": 3.0}, 4.0)
    assert plan == {"reading": 1.0, "standard: start": 1.0, "standard: final": 3.0}
    with ProgressBar(plan, stream) as bar:
        bar.enter("reading")
        bar.section("standard")
        bar.done("start", 5.0)
        bar.section("")
        bar.enter("reading")
    drawn = shown(stream)
    assert ("standard: start", 40, "error 5 %") in drawn
    assert drawn[-1] == ("reading", 40, "")


def test_verbose_is_a_bar_in_a_terminal_and_lines_elsewhere(X, monkeypatch, capsys):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    nmf_merge(X, 4, verbose=1)
    assert [words for words, _, _ in shown(stream)][-1] == "final fit"
    assert stream.getvalue().endswith("\r")  # it is taken away
    assert capsys.readouterr().out == ""
    rank_path(X, 4, verbose=1)
    assert any(words.startswith("down to") for words, _, _ in shown(stream))
    nmf_merge(X, 4, verbose=2)
    assert "final" in capsys.readouterr().out


def test_a_bar_of_verbose_is_taken_away_when_the_fit_fails(X, monkeypatch):
    closed = []
    close = ProgressBar.close
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr(ProgressBar, "close", lambda self: closed.append(close(self)))

    def fails(*arguments):
        raise RuntimeError("no more")

    monkeypatch.setattr("nmfmerge.method.course.recover", fails)
    with pytest.raises(RuntimeError, match="no more"):
        nmf_merge(X, 4, verbose=1)
    assert closed


def test_no_bar_is_left_behind_when_an_argument_is_refused(X, monkeypatch):
    monkeypatch.setattr("sys.stderr", stream := Terminal())
    W, H = np.ones((40, 3)), np.ones((3, 60))
    with pytest.raises(ValueError, match="hold names the components"):
        nmf_merge(X, 3, init=(W, H), hold=[2], verbose=1)
    assert stream.getvalue() == ""


def test_a_bar_that_was_given_stays_open(X):
    stream = Terminal()
    with ProgressBar(MERGED, stream) as bar:
        nmf_merge(X, 3, n_init=1, verbose=1, callback=bar)
        drawn = len(shown(stream))
        bar.enter("final")
        assert len(shown(stream)) == drawn + 1


@pytest.mark.parametrize("stability", [False, True])
def test_every_stage_of_a_path_is_on_its_bar(X, stability):
    seen = set()
    rank_path(X, 5, 2, stability=stability, callback=lambda now: seen.add(now.stage))
    assert {s for s in seen if not s.split(": ")[-1].startswith("fit of")} <= set(
        path_stages(5, 2, stability)
    )


@pytest.mark.parametrize(
    ("first", "step", "tol", "way"),
    [(1.0, 1.0, 1e-4, 0.0), (1.0, 1e-2, 1e-4, 0.5), (1.0, 1e-5, 1e-4, 1.0), (1e-3, 1.0, 1e-4, 0.0),
     (1e-5, 1e-3, 1e-4, 0.0), (0.0, 0.0, 0.0, 1.0), (1.0, 0.5, 0.0, 0.0)],
)  # fmt: skip
def test_half_way_is_half_of_the_logarithm(first, step, tol, way):
    assert progress._way(first, step, tol) == pytest.approx(way)


class Streamed:
    """A data matrix that counts what it has read."""

    def __init__(self):
        self.bytes_read, self.passes = 0, 0


class Watched:
    """The progress of a fit of such data."""

    stage, tol, start, fitting_error = "final", 1e-4, 0, 3.0

    def __init__(self, data, step):
        self.step = step
        self._point = type("Batch", (), {"data": data})


def watch(monkeypatch, data, seconds, bytes_read):
    """Note iterations at these times, with so much read until then; return the last remarks."""
    stream, now = Terminal(), [0.0]
    monkeypatch.setattr(progress, "monotonic", lambda: now[0])
    with ProgressBar(progress.PLAIN, stream) as bar:
        for i, (now[0], read) in enumerate(zip(seconds, bytes_read, strict=True), 1):
            data.bytes_read, data.passes = read, i
            bar.note(Watched(data, 1 / i))
    return [remarks for _, _, remarks in shown(stream) if remarks]


@pytest.mark.usefixtures("every_time")
def test_a_bar_shows_how_fast_data_are_streamed(monkeypatch):
    remarks = watch(monkeypatch, Streamed(), [1, 2, 3], [0, 10**9, 3 * 10**9])
    assert remarks[-1] == "error 3 %, pass 3, 1.50 GB/s"


@pytest.mark.usefixtures("every_time")
def test_throughput_is_that_of_the_last_seconds(monkeypatch):
    seconds = [*range(1, 101), *range(101, 121)]
    bytes_read = [*(10**9 * s for s in range(1, 101)), *(10**11 + 10**8 * s for s in range(1, 21))]
    remarks = watch(monkeypatch, Streamed(), seconds, bytes_read)
    assert remarks[-1].endswith("0.10 GB/s")


@pytest.mark.usefixtures("every_time")
def test_throughput_ends_with_its_stage(monkeypatch):
    stream, data = Terminal(), Streamed()
    monkeypatch.setattr(progress, "monotonic", iter(range(100)).__next__)
    with ProgressBar(progress.PLAIN, stream) as bar:
        for data.bytes_read in (0, 10**9, 2 * 10**9):
            bar.note(Watched(data, 1.0))
        assert "GB/s" in shown(stream)[-1][2]
        bar.enter("writing")
        assert "GB/s" not in shown(stream)[-1][2]


@pytest.mark.usefixtures("every_time")
def test_another_fit_begins_to_count_anew(monkeypatch):
    remarks = watch(monkeypatch, Streamed(), [1, 2, 3, 4], [0, 10**12, 0, 10**9])
    assert remarks[-1].endswith("1.00 GB/s")


@pytest.mark.usefixtures("every_time")
def test_a_bar_says_nothing_of_reading_where_data_are_in_memory(X, monkeypatch):
    stream = Terminal()
    with ProgressBar(progress.PLAIN, stream) as bar:
        nmf(X, 4, callback=bar)
    assert "GB/s" not in stream.getvalue()
    assert "pass" not in stream.getvalue()
    remarks = watch(monkeypatch, Streamed(), [1, 2], [10**9, 10**9])
    assert remarks[-1] == "error 3 %, pass 2"
