import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import Factorization, Status, plot
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.drawing.blocks import average, average_product, block_starts


def factorization(W, H):
    return Factorization(W, H, 0.0, 0.0, (), Status.CONVERGED, 0.0)


def panels(figure):
    return [ax for ax in figure.axes if ax.images and ax.get_title()]


def ticks(ax, which):
    axis = ax.xaxis if which == "x" else ax.yaxis
    return [
        (tick, text.get_text())
        for tick, text in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True)
    ]


def test_panels_are_X_WH_and_the_residual(run):
    data, result = run
    X, WH, residual = panels(plot.reconstruction(result, data))
    np.testing.assert_allclose(X.images[0].get_array(), data.X)
    np.testing.assert_allclose(WH.images[0].get_array(), result.W @ result.H)
    np.testing.assert_allclose(residual.images[0].get_array(), data.X - result.W @ result.H)
    assert X.images[0].norm is WH.images[0].norm
    assert residual.images[0].norm.vmin == -residual.images[0].norm.vmax
    assert (X.get_ylabel(), X.get_xlabel()) == ("m/z", "scan")
    assert X.get_ylim() == (-0.5, 59.5)
    assert all(float(text) == data.rows.values[int(at)] for at, text in ticks(X, "y"))


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
    assert panels(figure)[0].get_ylabel() == "gene"
    assert [text for _, text in ticks(panels(figure)[0], "y")] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="data has no X"):
        plot.reconstruction(
            factorization(np.zeros((3, 1)), np.zeros((1, 4))),
            Dataset("x", None, 1, names, Axis("column", np.arange(4))),
        )


def test_numbers_that_are_not_evenly_spaced_keep_their_values(rng):
    times = np.array([2500.0, 2501, 2504, 2510, 2530, 2570, 2600, 2700])
    data = Dataset("x", rng.random((5, 8)), 1, Axis("mass", np.arange(5)), Axis("time", times, "s"))
    ax = panels(plot.reconstruction(factorization(rng.random((5, 1)), rng.random((1, 8))), data))[0]
    assert ax.get_xlabel() == "time (s)"
    assert len(ticks(ax, "x")) > 1
    for at, text in ticks(ax, "x"):
        assert np.interp(at, np.arange(8), times) == pytest.approx(float(text))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_names_are_sorted_by_component(rng, kind):
    groups = rng.integers(0, 3, 40), rng.integers(0, 3, 50)
    W, H = (np.eye(3)[group] * (1 + rng.random((len(group), 1))) for group in groups)
    X = W @ H.T
    rows, columns = (
        Axis(name, np.array([f"{name}{i}" for i in range(len(group))]))
        for name, group in zip(("word", "document"), groups, strict=True)
    )
    result = factorization(W, np.ascontiguousarray(H.T))
    figure = plot.reconstruction(result, Dataset("x", kind(X), 3, rows, columns))
    drawn = panels(figure)[0].images[0].get_array()
    sizes = [np.bincount(group, minlength=3) for group in groups]
    expected = np.kron(np.eye(3), 1)
    expected = np.repeat(np.repeat(expected, sizes[0], axis=0), sizes[1], axis=1)
    np.testing.assert_array_equal(drawn > 0, expected > 0)  # blocks along the diagonal
    assert panels(figure)[0].get_ylabel() == "40 words"
    assert "sorted by component" in figure.get_supxlabel()


def test_a_sparse_picture_is_not_white(rng):
    X = sp.random_array((3000, 2000), density=2e-3, rng=rng, format="csr")
    X.data[0] = 1e4  # one entry that would take the whole scale
    data = Dataset("x", X, 1, Axis("row", np.arange(3000)), Axis("column", np.arange(2000)))
    result = factorization(np.full((3000, 1), 0.01), np.full((1, 2000), 0.01))
    image = panels(plot.reconstruction(result, data))[0].images[0]
    shown = image.norm(image.get_array()[image.get_array() > 0])
    assert np.median(np.asarray(shown)) > 0.1


def test_spectrograms_are_in_decibels_over_the_logarithm_of_frequency(rng):
    W, H = rng.random((65, 2)), rng.random((2, 30))
    frequency, time = (
        Axis("frequency", np.arange(65) * 125.0, "Hz"),
        Axis("time", np.arange(30) / 10, "s"),
    )
    X = W @ H
    X[20] *= 0.1
    data = Dataset("x", X, 2, frequency, time)
    first = panels(plot.reconstruction(factorization(W, H), data))[0]
    image = first.images[0]
    decibels = 20 * np.log10(X[1:] / max(X.max(), (W @ H).max()))
    assert image.norm.vmin == -60
    np.testing.assert_allclose(image.get_array()[0], np.maximum(decibels[0], -60))
    places = {float(text): at for at, text in ticks(first, "y")}
    assert places[1000] - places[500] == pytest.approx(places[2000] - places[1000], rel=0.02)


def test_images_are_shown_as_means(movie):
    data, result = movie
    X, WH, residual = panels(plot.reconstruction(result, data))
    mean = data.picture(data.X.mean(axis=1))
    fitted = data.picture((result.W @ result.H).mean(axis=1))
    np.testing.assert_allclose(X.images[0].get_array(), mean)
    np.testing.assert_allclose(WH.images[0].get_array(), fitted)
    np.testing.assert_allclose(residual.images[0].get_array(), mean - fitted, atol=1e-12)
