import itertools
import re

import numpy as np
import pandas as pd
import pytest
import tifffile
from scipy.io import savemat

import nmfmerge
from nmfmerge import export
from nmfmerge.datasets import Axis, Dataset
from nmfmerge.io import read
from nmfmerge.io.options import OPTIONS

HEIGHT, WIDTH, FRAMES = 9, 7, 40


@pytest.fixture
def cube(rng):
    """Three blobs that light up at random: frames × height × width."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    blobs = np.stack(
        [np.exp(-((y - a) ** 2 + (x - b) ** 2) / 3) for a, b in ((2, 2), (6, 1), (5, 5))]
    )
    return np.einsum("kt,kyx->tyx", rng.exponential(size=(3, FRAMES)), blobs)


@pytest.fixture
def fit(command, tmp_path):
    """Fits a file on the command line; W and H and the folder."""

    def run(file, *options):
        folder = tmp_path / "fit"
        code, _, err = command("fit", file, "-r", 3, "--no-report", "-o", folder, *options)
        assert (code, err) == (0, "")
        factors = np.load(folder / "factors.npz")
        return factors["W"], factors["H"], folder

    return run


def test_a_movie_comes_back_as_maps_and_traces(tmp_path, fit, cube):
    tifffile.imwrite(tmp_path / "a.tif", cube.astype(np.float32), photometric="minisblack")
    W, H, folder = fit(tmp_path / "a.tif")
    assert not (folder / "spectra.csv").exists()
    with tifffile.TiffFile(folder / "maps.tif") as file:
        maps, facts = file.asarray(), file.imagej_metadata
    assert (maps.dtype, maps.shape) == (np.float32, (3, HEIGHT, WIDTH))
    np.testing.assert_array_equal(maps, W.T.reshape(3, HEIGHT, WIDTH).astype(np.float32))
    assert facts["slices"] == 3
    assert facts["Labels"] == ["component 1", "component 2", "component 3"]
    assert facts["max"] == pytest.approx(W.max())
    traces = pd.read_csv(folder / "traces.csv", index_col=0)
    assert traces.index.name == "frame"
    assert traces.columns.tolist() == facts["Labels"]
    assert traces.index.tolist() == list(range(FRAMES))
    np.testing.assert_allclose(traces, H.T, rtol=1e-8)
    again = read(folder / "maps.tif")
    np.testing.assert_array_equal(again.X, W.astype(np.float32))


def test_a_transposed_movie_has_the_same_files(tmp_path, fit, cube):
    tifffile.imwrite(tmp_path / "a.tif", cube, photometric="minisblack")
    W, H, folder = fit(tmp_path / "a.tif", "--transpose")
    maps = tifffile.imread(folder / "maps.tif")
    np.testing.assert_array_equal(maps, H.reshape(3, HEIGHT, WIDTH).astype(np.float32))
    np.testing.assert_allclose(pd.read_csv(folder / "traces.csv", index_col=0), W, rtol=1e-8)


WAVELENGTHS = np.linspace(400.5, 790.25, FRAMES)


@pytest.mark.parametrize("interleave", ["bip", "bil", "bsq"])
@pytest.mark.parametrize("unit", [("Nanometers", "nm"), ("Micrometers", "µm"), ("Unknown", "")])
def test_an_envi_image_comes_back_as_maps_and_spectra(tmp_path, fit, cube, interleave, unit):
    from spectral import envi

    stored, shown = unit
    facts = {"wavelength": WAVELENGTHS.tolist(), "wavelength units": stored}
    image = np.moveaxis(cube, 0, -1).astype(np.float32)
    envi.save_image(str(tmp_path / "a.hdr"), image, metadata=facts, interleave=interleave)
    data = read(tmp_path / "a.hdr")
    np.testing.assert_array_equal(data.X, image.reshape(-1, FRAMES))
    W, H, folder = fit(tmp_path / "a.hdr")
    maps = tifffile.imread(folder / "maps.tif")
    np.testing.assert_array_equal(maps, W.T.reshape(3, HEIGHT, WIDTH).astype(np.float32))
    spectra = pd.read_csv(folder / "spectra.csv", index_col=0)
    assert spectra.index.name == (f"wavelength ({shown})" if shown else "wavelength")
    np.testing.assert_allclose(spectra.index, WAVELENGTHS)
    np.testing.assert_allclose(spectra, H.T, rtol=1e-8)
    assert not (folder / "traces.csv").exists()


@pytest.mark.parametrize("axes", list(itertools.permutations(range(3), 2)))
def test_any_two_axes_of_a_cube_are_pixels(tmp_path, fit, cube, axes):
    """The cube of a .mat file, with height and width at any place, and wavelengths beside it."""
    other = ({0, 1, 2} - set(axes)).pop()
    stored = np.moveaxis(cube, (1, 2, 0), (*axes, other))
    savemat(tmp_path / "a.mat", {"cube": stored})
    np.savetxt(tmp_path / "bands.txt", WAVELENGTHS)
    W, H, folder = fit(
        tmp_path / "a.mat", "--pixel-axes", f"{axes[0]},{axes[1]}",
        "--wavelengths", tmp_path / "bands.txt", "--wavelength-unit", "cm",
    )  # fmt: skip
    maps = tifffile.imread(folder / "maps.tif")
    assert maps.shape == (3, HEIGHT, WIDTH)
    fitted = np.einsum("kyx,kt->tyx", maps, H)
    assert np.linalg.norm(fitted - cube) < 0.05 * np.linalg.norm(cube)
    np.testing.assert_array_equal(maps, W.T.reshape(3, HEIGHT, WIDTH).astype(np.float32))
    spectra = pd.read_csv(folder / "spectra.csv", index_col=0)
    assert spectra.index.name == "wavelength (cm)"
    np.testing.assert_allclose(spectra.index, WAVELENGTHS)


@pytest.mark.parametrize("order", ["C", "F"])
def test_pixels_of_a_matrix_fold_in_their_order(tmp_path, fit, cube, order):
    X = np.stack([frame.ravel(order=order) for frame in cube])
    np.save(tmp_path / "a.npy", X)  # frames × pixels
    W, H, folder = fit(
        tmp_path / "a.npy", "--image-shape", f"{HEIGHT},{WIDTH}", "--image-order", order
    )
    maps = tifffile.imread(folder / "maps.tif")
    expected = np.stack([h.reshape((HEIGHT, WIDTH), order=order) for h in H])
    np.testing.assert_array_equal(maps, expected.astype(np.float32))
    np.testing.assert_allclose(pd.read_csv(folder / "traces.csv", index_col=0), W, rtol=1e-8)


def test_names_of_components_label_the_maps(tmp_path, rng):
    from dataclasses import replace

    X = rng.random((12, 5))
    data = Dataset("x", X, None, Axis("pixel", np.arange(12)), Axis("time", np.arange(5), "s"),
                   image_shape=(3, 4))  # fmt: skip
    result = replace(nmfmerge.nmf(X, 2), names=("soma", "dendrite β"))
    export.write(result, data, tmp_path)
    with tifffile.TiffFile(tmp_path / "maps.tif") as file:
        assert file.imagej_metadata["Labels"] == ["soma", "dendrite β"]
    np.testing.assert_array_equal(export.maps(result, data), result.W.T.reshape(2, 3, 4))
    assert pd.read_csv(tmp_path / "traces.csv").columns.tolist() == [
        "time (s)",
        "soma",
        "dendrite β",
    ]
    plain = replace(data, image_shape=None)
    with pytest.raises(ValueError, match="does not consist of pictures: read it with image_shape="):
        export.maps(result, plain)


def test_sound_has_no_traces(tmp_path, rng):
    X = rng.random((12, 5))
    axes = Axis("frequency", np.arange(12), "Hz"), Axis("time", np.arange(5), "s")
    export.write(nmfmerge.nmf(X, 2), Dataset("x", X, None, *axes), tmp_path)
    assert not {"maps.tif", "traces.csv", "spectra.csv"} & {
        file.name for file in tmp_path.iterdir()
    }


def test_without_tifffile_the_rest_is_written(tmp_path, rng, monkeypatch):
    import sys

    X = rng.random((12, 5))
    data = Dataset("x", X, None, Axis("pixel", np.arange(12)), Axis("frame", np.arange(5)),
                   image_shape=(3, 4))  # fmt: skip
    monkeypatch.setitem(sys.modules, "tifffile", None)
    left_out = export.write(nmfmerge.nmf(X, 2), data, tmp_path)
    assert left_out == {"maps": 'writing maps.tif needs tifffile: pip install "nmfmerge[images]"'}
    assert (tmp_path / "traces.csv").exists()


@pytest.mark.parametrize("command_name", ["fit", "info"])
def test_axes_of_pixels_counted_from_the_last_are_taken_as_the_help_says(
    tmp_path, command, command_name
):
    np.save(tmp_path / "cube.npy", np.random.default_rng(0).random((7, 4, 5)))
    option = re.search(r"--pixel-axes=-\d,-\d", OPTIONS["pixel_axes"].description).group()
    options = ["-r", 2, "--no-report", "-o", tmp_path / "f"] if command_name == "fit" else []
    code, _, err = command(command_name, tmp_path / "cube.npy", option, *options)
    assert (code, err) == (0, "")
