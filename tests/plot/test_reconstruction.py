import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import Factorization, Status, plot
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.plot.blocks import average, average_product, block_starts


def factorization(W, H):
    return Factorization(W, H, 0.0, 0.0, (), Status.CONVERGED, 0.0)


def panels(figure):
    return [ax for ax in figure.axes if ax.images]


def test_panels_are_X_WH_and_the_residual(run):
    data, result = run
    X, WH, residual = panels(plot.reconstruction(result, data))
    np.testing.assert_allclose(X.images[0].get_array(), data.X)
    np.testing.assert_allclose(WH.images[0].get_array(), result.W @ result.H)
    np.testing.assert_allclose(residual.images[0].get_array(), data.X - result.W @ result.H)
    assert X.images[0].norm is WH.images[0].norm
    assert residual.images[0].norm.vmin == -residual.images[0].norm.vmax
    assert (X.get_ylabel(), X.get_xlabel()) == ("m/z", "scan")
    assert X.get_ylim() == (199.5, 259.5)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_block_averages_of_any_kind_of_X(rng, kind):
    X = rng.random((25, 11)) * (rng.random((25, 11)) < 0.4)
    rows, columns = block_starts(25, 5), block_starts(11, 4)
    small = average(kind(X), rows, columns)
    assert small.shape == (5, 4)
    assert small[1, 3] == pytest.approx(X[5:10, 8:].mean())
    W, H = rng.random((25, 3)), rng.random((3, 11))
    np.testing.assert_allclose(average_product(W, H, rows, columns), average(W @ H, rows, columns))


def test_large_sparse_data_are_averaged_and_the_figure_says_so(rng):
    X = sp.random_array((5000, 40_000), density=1e-5, rng=rng, format="csr", dtype=np.float32)
    data = Dataset("x", X, 2, Axis("gene", np.arange(5000)), Axis("cell", np.arange(40_000)))
    result = factorization(
        rng.random((5000, 2), dtype=np.float32), rng.random((2, 40_000), dtype=np.float32)
    )
    figure = plot.reconstruction(result, data)
    assert panels(figure)[0].images[0].get_array().shape == (600, 600)
    assert "averaged in blocks to 600 × 600" in figure.get_supxlabel()


def test_zero_data_names_and_missing_X(rng):
    names = Axis("gene", np.array(["a", "b", "c"]))
    data = Dataset("x", np.zeros((3, 4)), 1, names, Axis("column", np.arange(4)))
    figure = plot.reconstruction(factorization(np.zeros((3, 1)), np.zeros((1, 4))), data)
    figure.draw_without_rendering()
    assert panels(figure)[0].get_ylabel() == "gene number"
    with pytest.raises(ValueError, match="data has no X"):
        plot.reconstruction(
            factorization(np.zeros((3, 1)), np.zeros((1, 4))),
            Dataset("x", None, 1, names, Axis("column", np.arange(4))),
        )
