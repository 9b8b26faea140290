import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.io import FormatError, describe, read


@pytest.fixture
def path(tmp_path, X):
    X[1] = 0
    X[:, 2] = 0
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("transpose", [False, True])
def test_rows_and_columns_of_zeros_are_dropped_with_their_names(path, X, sparse, transpose):
    if sparse:
        places = np.indices(X.shape).reshape(2, -1)
        explicit = sp.csr_matrix((X.ravel(), places), X.shape)  # which stores zeros too
        assert explicit.nnz == X.size
        path = path.with_suffix(".npz")
        sp.save_npz(path, explicit)
    names = [f"n{i}" for i in range(4 if transpose else 5)]
    data = read(path, transpose=transpose, row_names=names, drop_zero_rows=True)
    X = X.T if transpose else X
    gone = 2 if transpose else 1
    kept = [i for i in range(len(X)) if i != gone]
    values = data.X.toarray() if sparse else data.X
    np.testing.assert_array_equal(values, X[kept])
    assert data.rows.values.tolist() == [names[i] for i in kept]
    told = f"1 of {len(X)} rows that are all zero were dropped"
    assert told in data.description
    assert told in describe(data)["description"]
    both = read(path, transpose=transpose, drop_zero_rows=True, drop_zero_columns=True)
    assert both.X.shape == ((3, 4) if transpose else (4, 3))
    assert describe(both)["zero_rows"] == describe(both)["zero_columns"] == 0


def test_nothing_is_said_where_nothing_is_dropped(tmp_path, X):
    np.save(tmp_path / "y.npy", X + 1)
    assert read(tmp_path / "y.npy", drop_zero_rows=True).description == ""


def test_zeros_only_are_refused(tmp_path, refused):
    np.save(tmp_path / "z.npy", np.zeros((3, 2)))
    refused(tmp_path / "z.npy", "holds zeros only", drop_zero_rows=True)


def test_pixels_are_not_dropped(path, refused):
    refused(path, "drop_zero_columns=True would remove 1 pixels", drop_zero_columns=True,
            image_shape="2,2")  # fmt: skip


@pytest.mark.parametrize("shape", ["2,2", "2x2", " 2, 2", (2, 2), [2, 2], np.array([2, 2])])
def test_the_side_of_the_pixels_is_found(path, shape):
    data = read(path, image_shape=shape)
    assert (data.rows.name, data.columns.name) == ("frame", "pixel")
    assert (data.image_shape, data.image_order) == ((2, 2), "C")
    data = read(path, image_shape=shape, transpose=True, image_order="F", columns="time")
    assert (data.rows.name, data.columns.name) == ("pixel", "time")
    assert data.image_order == "F"


def test_a_square_matrix_needs_to_be_told_which_side_is_pixels(tmp_path, rng, refused):
    path = tmp_path / "s.npy"
    np.save(path, rng.random((6, 6)))
    refused(path, "image_shape='2,3' fits both the rows and the columns", "rows='pixel'",
            image_shape="2,3")  # fmt: skip
    assert read(path, image_shape="2,3", rows="pixel").columns.name == "frame"
    assert read(path, image_shape="2,3", columns="pixel").rows.name == "frame"
    refused(path, "has 8 pixels where", "6 rows and 6 columns", image_shape="2,4")


@pytest.mark.parametrize("shape", ["2", "2,2,2", "a,b", "0,4", "-2,-2", (1.5, 2), 4, "2.0,2"])
def test_what_is_no_size_of_a_picture_is_refused(path, shape):
    with pytest.raises(ValueError, match=r"image_shape=.* write height and width in pixels"):
        read(path, image_shape=shape)


@pytest.mark.parametrize("axes", ["0", "1,1", "a,b", (0, 1, 2)])
def test_what_is_no_pair_of_axes_is_refused(path, axes):
    with pytest.raises(ValueError, match=r"pixel_axes=.* does not name two axes"):
        read(path, pixel_axes=axes)


def test_a_cube_says_how_it_can_be_read(tmp_path, rng, refused):
    path = tmp_path / "cube.npy"
    cube = rng.random((3, 4, 5))
    np.save(path, cube)
    refused(path, "3 dimensions, 3 × 4 × 5", "pixel_axes='0,1'")
    refused(path, "pixel_axes='0,3' does not name two axes", "from 0 to 2", pixel_axes="0,3")
    refused(path, "pixel_axes='0,-3' does not name", pixel_axes="0,-3")
    data = read(path, pixel_axes=(-1, 0))
    assert data.image_shape == (5, 3)
    for k in range(4):
        np.testing.assert_array_equal(data.picture(data.X[:, k]), cube[:, k].T)
    np.save(path, cube[None])
    assert read(path, pixel_axes="1,2").X.shape == (12, 5)
    np.save(path, rng.random((2, 3, 4, 5)))
    refused(path, "4 dimensions", "store one of three", pixel_axes="1,2")
    np.save(path, cube[0])
    refused(path, "not a cube: leave out pixel_axes='0,1'", "image_shape=", pixel_axes="0,1")


@pytest.mark.parametrize("suffix", ["npz", "h5", "zarr", "mat"])
def test_cubes_of_other_formats(tmp_path, rng, suffix):
    import h5py
    import zarr
    from scipy.io import savemat

    cube, path = rng.random((3, 4, 5)), tmp_path / f"cube.{suffix}"
    if suffix == "npz":
        np.savez(path, cube=cube)
    elif suffix == "mat":
        savemat(path, {"cube": cube})
    elif suffix == "h5":
        with h5py.File(path, "w") as file:
            file["cube"] = cube
    else:
        zarr.save(str(path), cube)
    data = read(path, pixel_axes="0,1")
    np.testing.assert_array_equal(data.X, cube.reshape(12, 5))
    assert (data.rows.name, data.columns.name, data.image_shape) == ("pixel", "frame", (3, 4))


def test_wavelengths_go_to_the_side_that_is_not_pixels(tmp_path, path, refused):
    numbers = [400.0, 410.5, 420, 430, 440]
    file = tmp_path / "w.txt"
    file.write_text("".join(f"{number}\n" for number in numbers) + "\n")
    for given in (file, str(file), numbers, np.array(numbers)):
        data = read(path, wavelengths=given)
        assert (data.rows.label, data.columns.name) == ("wavelength (nm)", "column")
        assert data.rows.values.tolist() == numbers
    data = read(path, wavelengths=file, image_shape="2,2", transpose=True, wavelength_unit="µm")
    assert (data.rows.name, data.columns.label) == ("pixel", "wavelength (µm)")
    refused(path, "wavelengths has 3 numbers", "5 rows and 4 columns", wavelengths=[1, 2, 3])
    file.write_text("400\nred\n")
    refused_text = "holds a line that is not a number"
    with pytest.raises((FormatError, ArgumentError), match=refused_text):
        read(path, wavelengths=file)
    with pytest.raises(ValueError, match="are not numbers: name a text file"):
        read(path, wavelengths=[[1], [2]])
    np.save(path, np.ones((5, 5)))
    refused(path, "say which are bands with rows='band'", wavelengths=numbers)
    assert read(path, wavelengths=numbers, columns="band").columns.unit == "nm"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"image_order": "F"}, "add image_shape="),
        ({"image_order": "G", "image_shape": "2,2"}, "write C .* or F"),
        ({"wavelength_unit": "nm"}, "add wavelengths="),
    ],
)
def test_options_that_say_nothing_are_refused(path, options, words):
    with pytest.raises(ValueError, match=words):
        read(path, **options)


def test_no_full_stop_stands_before_a_semicolon(tmp_path):
    """Descriptions of readers are sentences, to which others are added."""
    from scipy.io import wavfile

    sound = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
    sound[1000:3000] = 0
    wavfile.write(tmp_path / "x.wav", 8000, sound)
    data = read(tmp_path / "x.wav", window=100, drop_zero_columns=True)
    assert data.description.startswith("Amplitude spectrogram; ")
    assert data.description.endswith(" columns that are all zero were dropped")
