"""A loss that the package does not have, in a few lines: what it declares decides what it meets."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import Editor, NMFMerge, cli, metrics, nmf, nmf_merge, plot
from nmfmerge.inputs.check import check_X
from nmfmerge.losses import LOSSES, Form, Loss, register
from nmfmerge.losses.frobenius import Frobenius
from nmfmerge.matrices.offers import Need
from nmfmerge.settings import SETTINGS
from nmfmerge.solvers import ALL, SOLVERS, check_solver_fits, solver_of, solvers_of
from nmfmerge.solvers.hals import HALS
from nmfmerge.storage import folder


class Weighted(Frobenius):
    """Three times the squared error, as measurements of a known precision have it."""

    name = "weighted"
    abbreviation = "w3"

    def size(self, matrix):
        return 3 * super().size(matrix)

    def value(self, batch):
        return 3 * super().value(batch)

    def exact_values(self, matrix, Wt, H):
        return 3 * super().exact_values(matrix, Wt, H)

    def merge_percent(self, penalty, matrix):
        return 3 * super().merge_percent(penalty, matrix)

    previews = Loss.previews  # measured: those of Frobenius have another weight


@pytest.fixture
def weighted(monkeypatch):
    monkeypatch.setitem(SETTINGS, "beta_loss", SETTINGS["beta_loss"])  # put back at the end
    monkeypatch.setitem(LOSSES, "weighted", None)
    register(Weighted())


@pytest.fixture
def X(rng):
    return rng.random((40, 4)) @ rng.random((4, 30)) + 0.05 * rng.random((40, 30))


@pytest.mark.usefixtures("weighted")
@pytest.mark.parametrize("fit", [nmf, nmf_merge])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_new_loss_is_minimised_by_all_solvers_of_its_form(X, fit, solver, kind):
    options = {"solver": solver, "n_init": 2, "max_iter": 500, "tol": 1e-3}
    ours = fit(kind(X), 3, beta_loss="w3", **options)
    theirs = fit(kind(X), 3, **options)
    assert ours.loss == "weighted"
    assert ours.objective == pytest.approx(3 * theirs.objective, rel=1e-6)
    assert ours.fitting_error == pytest.approx(theirs.fitting_error, rel=1e-6)
    np.testing.assert_allclose(ours.shares(), theirs.shares(), rtol=1e-4)


@pytest.mark.usefixtures("weighted")
def test_a_new_loss_is_known_everywhere(X, tmp_path, capsys):
    lazy = nmf(da.from_array(X, chunks=(10, 30)), 3, beta_loss="weighted")
    result = nmf_merge(X, 3, beta_loss="weighted")
    assert lazy.objective == pytest.approx(nmf(X, 3, beta_loss="weighted").objective, rel=1e-5)
    assert metrics.fitting_error(X, result.W, result.H, beta_loss="weighted") == pytest.approx(
        result.fitting_error
    )
    assert NMFMerge(3, beta_loss="weighted").fit(X).reconstruction_err_ == pytest.approx(
        np.sqrt(2 * result.objective), rel=1e-4
    )
    assert "‖WH‖²" in plot.merges(result).axes[1].get_ylabel()
    np.save(tmp_path / "x.npy", X)
    words = ["fit", tmp_path / "x.npy", "-r", "3", "--loss", "w3", "--no-compare"]
    assert cli.main([*map(str, words), "-o", str(tmp_path / "out")]) == 0
    assert folder.read(tmp_path / "out").result.loss == "weighted"
    assert "weighted" in (tmp_path / "out/report.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="'frobenius', 'kullback-leibler', 'weighted'"):
        nmf(X, 3, beta_loss="other")


@pytest.mark.usefixtures("weighted")
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_fit_by_a_new_loss_can_be_edited(X, kind):
    result = nmf_merge(X, 5, beta_loss="weighted")
    ours, theirs = Editor(kind(X), result), Editor(X, result.W, result.H)
    np.testing.assert_allclose(ours.pair_changes(), theirs.pair_changes(), rtol=1e-7, atol=1e-10)
    for name, arguments in (("merge", (1, 4)), ("remove", (0,)), ("split", (2,)), ("add", (1,))):
        preview = ours.preview(name, *arguments)
        assert preview.after == pytest.approx(theirs.preview(name, *arguments).after, rel=1e-7)
        after = getattr(ours, name)(*arguments)
        assert after.loss == "weighted"
        assert after.fitting_error == pytest.approx(preview.after, rel=1e-12)
        ours.undo()
    expected = metrics.fitting_error(X, result.W, result.H, beta_loss="weighted")
    assert ours.fitting_error == pytest.approx(expected)
    assert ours.merge_to(3).n_components == 3
    assert ours.polish().objective == pytest.approx(3 * nmf(X, 3).objective, rel=0.05)


def test_without_it_nothing_is_left(X):
    with pytest.raises(ValueError, match=r"beta_loss='weighted' is not known"):
        nmf(X, 3, beta_loss="weighted")


def test_a_solver_minimises_the_losses_of_its_form(X):
    assert [solver.name for solver in ALL if solver.requires is Form.GRAMS] == list(SOLVERS)
    for loss in LOSSES.values():
        for name, solver in solvers_of(loss).items():
            assert solver_of(name, loss) is solver
            assert nmf(X, 2, beta_loss=loss.name, solver=name, tol=1e-1).loss == loss.name
    with pytest.raises(ValueError, match=r"'hals' does not minimise.*'accelerated', 'mu'"):
        nmf(X, 2, beta_loss="kullback-leibler", solver="hals")


def test_messages_are_made_from_what_is_declared(X, monkeypatch):
    chunks = da.from_array(X, chunks=(10, 30))
    with pytest.raises(ValueError, match=r"'mu' needs X in memory.*use 'accelerated' or 'hals'"):
        nmf(chunks, 2, solver="mu")
    data = check_X(chunks)
    monkeypatch.setattr(HALS, "needs", frozenset({Need.FACTORS}))
    with pytest.raises(ValueError, match=r"for a Dask array use 'accelerated'$"):
        check_solver_fits(HALS, LOSSES["frobenius"], data)
    monkeypatch.setattr(Frobenius, "needs", frozenset({Need.LINES}))
    with pytest.raises(ValueError, match=r"'frobenius' needs X in.*a Dask array pass X\.compute"):
        nmf(chunks, 2)
    nmf(X, 2)
