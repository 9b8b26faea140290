import numpy as np
import pytest

from nmfmerge.io import ReadingWarning, read
from nmfmerge.storage.provenance import digest


@pytest.fixture
def cube(rng):
    return rng.integers(1, 1000, (4, 5, 6)).astype(np.int16)


@pytest.fixture
def write(tmp_path, cube):
    def save(stored=cube, metadata=None, **options):
        from spectral import envi

        envi.save_image(
            str(tmp_path / "x.hdr"), stored, metadata=metadata or {}, force=True, **options
        )
        return tmp_path / "x.hdr"

    return save


@pytest.mark.parametrize("ext", [".img", ".dat", ".raw", ".bsq", ""])
@pytest.mark.parametrize("byteorder", [0, 1])
def test_pixels_and_bands_come_back(write, cube, ext, byteorder):
    path = write(ext=ext, byteorder=byteorder, interleave="bsq")
    data = read(path)
    np.testing.assert_array_equal(data.X, cube.reshape(20, 6))
    assert data.X.dtype.isnative
    assert (data.rows.name, data.columns.name, data.image_shape) == ("pixel", "band", (4, 5))
    assert data.columns.values.tolist() == [1, 2, 3, 4, 5, 6]
    before = digest(path)
    file = path.with_suffix(ext)
    file.write_bytes(bytes(file.stat().st_size))
    assert digest(path) != before


def test_bands_have_their_names(write):
    names = ["a", "b", "c", "d", "e", "f"]
    assert read(write(metadata={"band names": names})).columns.values.tolist() == names


def test_the_scale_is_applied_as_spectral_does(write, cube):
    from spectral import envi

    path = write(metadata={"reflectance scale factor": 1000})
    np.testing.assert_allclose(read(path).X, cube.reshape(20, 6) / 1000)
    loaded = np.array(envi.open(str(path)).load()).reshape(20, 6)
    np.testing.assert_allclose(read(path).X, loaded, rtol=1e-6)


def test_entries_without_data_become_zero(write, cube):
    cube[1, 2] = -9999
    path = write(cube, metadata={"data ignore value": -9999})
    with pytest.warns(ReadingWarning, match="marks 6 entries as no data, which became zero"):
        data = read(path)
    assert data.X.min() == 0
    np.testing.assert_array_equal(data.X, np.maximum(cube, 0).reshape(20, 6))


def test_incomplete_images_are_refused(write, refused, cut):
    path = write()
    cut(path.with_suffix(".img"))
    refused(path, "cannot be read as envi")
    path.with_suffix(".img").unlink()
    refused(path, "has no data file beside it")
    text = path.read_text()
    path.write_text(text.replace("lines = 4", "lines = 0"))
    refused(path, "declares an empty image")
    path.write_text(text.replace("ENVI Standard", "ENVI Spectral Library"))
    refused(path, "is a library of spectra")


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
def test_each_interleave_is_read_and_others_are_refused(write, cube, refused, interleave):
    path = write(interleave=interleave)
    text = path.read_text()
    for known in (interleave, interleave.upper()):
        path.write_text(text.replace(f"interleave = {interleave}", f"interleave = {known}"))
        np.testing.assert_array_equal(read(path).X, cube.reshape(20, 6))
    for unknown in ("tile", interleave.title(), "bsqx", "0"):
        path.write_text(text.replace(f"interleave = {interleave}", f"interleave = {unknown}"))
        refused(path, f"interleave = {unknown}; expected bsq, bil, bip")


def test_without_spectral_the_command_is_given(write, needs):
    needs(write(), "spectral", "spectral", "hyperspectral")


@pytest.mark.parametrize("suffix", [".img", ".dat", ".bin", ""])
@pytest.mark.parametrize("style", ["{stem}.hdr", "{stem}{suffix}.hdr"])
def test_the_data_of_a_header_lead_to_the_header(tmp_path, refused, suffix, style):
    (tmp_path / f"samson{suffix}").write_bytes(b"data")
    header = tmp_path / style.format(stem="samson", suffix=suffix)
    header.write_text("ENVI\n")
    refused(tmp_path / f"samson{suffix}", f"has its header in {header}: name that file")
