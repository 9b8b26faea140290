import numpy as np
import pytest
import tifffile
from PIL import Image

from nmfmerge.io import read

SHAPE = (3, 4)


@pytest.fixture
def stack(rng):
    return rng.integers(0, 256, (11, *SHAPE), dtype=np.uint8)


def write_folder(folder, stack, suffix="png"):
    folder.mkdir()
    for k, image in enumerate(stack):
        Image.fromarray(image).save(folder / f"frame{k + 1}.{suffix}")
    (folder / "notes.md").write_text("not an image")
    (folder / ".hidden.png").write_text("not an image")
    return folder


def assert_stack(data, stack, axis):
    np.testing.assert_array_equal(data.X, stack.reshape(len(stack), -1).T)
    assert data.image_shape == stack.shape[1:]
    np.testing.assert_array_equal(data.picture(data.X[:, 0]), stack[0])
    assert (data.rows.name, data.columns.name) == ("pixel", axis)


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "PNG"])
def test_images_of_a_folder_are_columns_in_natural_order(tmp_path, stack, suffix):
    data = read(write_folder(tmp_path / "v1.2", stack, suffix))
    assert_stack(data, stack, "image")
    assert data.name == "v1.2"
    assert data.X.dtype == np.uint8
    assert list(data.columns.values) == [f"frame{k + 1}.{suffix}" for k in range(11)]


def test_transpose_puts_pixels_in_columns(tmp_path, stack):
    data = read(write_folder(tmp_path / "movie", stack), transpose=True)
    np.testing.assert_array_equal(data.X, stack.reshape(11, -1))
    np.testing.assert_array_equal(data.picture(data.X[2]), stack[2])


def test_jpeg_is_what_pillow_decodes(tmp_path, stack):
    folder = write_folder(tmp_path / "movie", stack, "jpg")
    with Image.open(folder / "frame1.jpg") as image:
        first = np.array(image)
    np.testing.assert_array_equal(read(folder).X[:, 0], first.ravel())


def test_colours_become_grey_and_deep_greys_stay(tmp_path, rng):
    colours = rng.integers(0, 256, (1, *SHAPE, 3), dtype=np.uint8)
    grey = np.array(Image.fromarray(colours[0]).convert("L"))
    data = read(write_folder(tmp_path / "colours", colours))
    np.testing.assert_array_equal(data.X[:, 0], grey.ravel())
    deep = rng.integers(0, 2**16, (2, *SHAPE), dtype=np.uint16)
    data = read(write_folder(tmp_path / "deep", deep))
    assert_stack(data, deep, "image")


def test_images_of_two_sizes_are_refused(tmp_path, stack, refused):
    folder = write_folder(tmp_path / "movie", stack)
    Image.fromarray(np.zeros((5, 6), np.uint8)).save(folder / "frame5.png")
    message = refused(folder, "has 5 × 6 pixels where frame1.png has 3 × 4")
    assert "frame5.png" in message


def test_a_damaged_image_is_named(tmp_path, stack, refused, cut):
    folder = write_folder(tmp_path / "movie", stack)
    cut(folder / "frame3.png")
    assert "frame3.png" in refused(folder, "cannot be read as an image")


def test_a_folder_without_images_is_refused(tmp_path, refused):
    refused(tmp_path, "a folder without images", ".png")


@pytest.mark.parametrize("suffix", ["tif", "tiff"])
@pytest.mark.parametrize("kind", ["plain", "ome", "imagej", "zlib"])
def test_frames_of_a_stack_are_columns(tmp_path, stack, suffix, kind):
    options = {
        "plain": {},
        "ome": {"ome": True, "metadata": {"axes": "TYX"}},
        "imagej": {"imagej": True, "metadata": {"axes": "TYX"}},
        "zlib": {"compression": "zlib"},
    }
    path = tmp_path / f"x.{'ome.' if kind == 'ome' else ''}{suffix}"
    tifffile.imwrite(path, stack, photometric="minisblack", **options[kind])
    data = read(path)
    assert_stack(data, stack, "frame")
    np.testing.assert_array_equal(data.columns.values, np.arange(11))


def test_a_stack_can_be_transposed_and_keeps_its_type(tmp_path, stack):
    tifffile.imwrite(tmp_path / "x.tif", stack.astype(np.float32), photometric="minisblack")
    data = read(tmp_path / "x.tif", transpose=True)
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, stack.reshape(11, -1))


def test_a_single_picture_is_one_column(tmp_path, stack):
    tifffile.imwrite(tmp_path / "x.tif", stack[0])
    assert_stack(read(tmp_path / "x.tif"), stack[:1], "frame")


def test_colours_of_a_stack_become_grey(tmp_path, rng):
    colours = rng.integers(0, 256, (5, *SHAPE, 3), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "x.tif", colours, photometric="rgb")
    data = read(tmp_path / "x.tif")
    grey = colours @ [0.299, 0.587, 0.114]
    np.testing.assert_allclose(data.X, grey.reshape(5, -1).T, rtol=1e-12)


def test_two_axes_of_frames_are_refused(tmp_path, rng, refused):
    movie = rng.integers(0, 256, (4, 2, *SHAPE), dtype=np.uint8)
    options = {"photometric": "minisblack", "metadata": {"axes": "TCYX"}}
    tifffile.imwrite(tmp_path / "x.ome.tif", movie, ome=True, **options)
    refused(tmp_path / "x.ome.tif", "more than one axis of frames (T=4, C=2)")


def test_pages_of_two_sizes_are_refused(tmp_path, refused):
    with tifffile.TiffWriter(tmp_path / "x.tif") as file:
        file.write(np.zeros((3, 4), np.uint8), photometric="minisblack")
        file.write(np.zeros((5, 6), np.uint8), photometric="minisblack")
    refused(tmp_path / "x.tif", "2 series of images")


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("options", [{}, {"ome": True}, {"imagej": True}, {"compression": "zlib"}])
def test_a_stack_cut_short_is_refused(tmp_path, rng, refused, cut, part, options):
    stack = rng.integers(0, 256, (6, 32, 32), dtype=np.uint8)
    tifffile.imwrite(tmp_path / "x.tif", stack, photometric="minisblack", **options)
    refused(cut(tmp_path / "x.tif", part))


def test_without_the_libraries_the_command_is_given(tmp_path, stack, needs):
    folder = write_folder(tmp_path / "movie", stack)
    message = needs(folder, "PIL", "pillow", "images")
    assert message.startswith("reading a folder of images needs pillow")
    tifffile.imwrite(tmp_path / "x.tif", stack, photometric="minisblack")
    assert needs(tmp_path / "x.tif", "tifffile", "tifffile", "images").startswith("reading .tif ")
