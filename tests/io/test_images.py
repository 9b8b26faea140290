import numpy as np
import pytest
import tifffile
from PIL import Image

from nmfmerge.io import ReadingWarning, read

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


def test_deep_greys_stay(tmp_path, rng):
    deep = rng.integers(0, 2**16, (2, *SHAPE), dtype=np.uint16)
    assert_stack(read(write_folder(tmp_path / "deep", deep)), deep, "image")


@pytest.fixture(params=["folder", "stack"])
def coloured(request, tmp_path, rng):
    """Colours (5, height, width, 3), and the folder or TIFF stack that has them."""
    colours = rng.integers(0, 256, (5, *SHAPE, 3), dtype=np.uint8)
    if request.param == "folder":
        return colours, write_folder(tmp_path / "colours", colours)
    tifffile.imwrite(tmp_path / "x.tif", colours, photometric="rgb")
    return colours, tmp_path / "x.tif"


def test_colours_become_grey_with_a_warning(coloured):
    colours, path = coloured
    grey = (colours @ [0.299, 0.587, 0.114]).reshape(5, -1).T
    with pytest.warns(ReadingWarning, match=r"became one grey value a pixel: .*channel='red'"):
        data = read(path)
    np.testing.assert_allclose(data.X, grey, rtol=1e-12)
    np.testing.assert_array_equal(read(path, channel="grey").X, data.X)


@pytest.mark.parametrize(
    ("channel", "k"), [("red", 0), ("green", 1), ("blue", 2), ("2", 1), (3, 2)]
)
def test_a_colour_can_be_chosen(coloured, channel, k):
    colours, path = coloured
    data = read(path, channel=channel)
    np.testing.assert_array_equal(data.X, colours[..., k].reshape(5, -1).T)
    assert data.X.dtype == np.uint8


def test_a_channel_that_is_not_there_is_refused(coloured, refused, tmp_path, stack):
    refused(coloured[1], "3 values a pixel: choose channel= from 1 to 3", channel=4)
    refused(coloured[1], "3 values a pixel", channel="mean")
    folder = write_folder(tmp_path / "grey", stack)
    refused(folder, "grey images: leave out channel='red'", channel="red")


def test_greys_stored_as_colours_are_grey_without_a_warning(tmp_path, stack):
    folder = write_folder(tmp_path / "movie", np.repeat(stack[..., None], 3, axis=-1))
    assert_stack(read(folder), stack, "image")
    tifffile.imwrite(tmp_path / "x.tif", np.repeat(stack[..., None], 3, axis=-1), photometric="rgb")
    assert_stack(read(tmp_path / "x.tif"), stack, "frame")


def test_a_grey_image_among_colours_counts(tmp_path, rng):
    colours = rng.integers(0, 256, (2, *SHAPE, 3), dtype=np.uint8)
    folder = write_folder(tmp_path / "mixed", [colours[0], colours[1, ..., 0]])
    np.testing.assert_array_equal(read(folder, channel="blue").X[:, 1], colours[1, ..., 0].ravel())


@pytest.mark.parametrize("suffix", ["tif", "gif", "webp", "png"])
def test_every_page_of_an_image_is_a_column(tmp_path, stack, suffix):
    pages = [Image.fromarray(page) for page in np.kron(stack, np.ones((1, 8, 8), np.uint8))]
    lossless = {"lossless": True} if suffix == "webp" else {}
    folder = tmp_path / "movie"
    folder.mkdir()
    pages[0].save(folder / f"a.{suffix}", save_all=True, append_images=pages[1:4], **lossless)
    pages[4].save(folder / f"b.{suffix}", **lossless)
    data = read(folder)
    np.testing.assert_array_equal(data.X.T, [np.ravel(page) for page in pages[:5]])
    names = [f"a.{suffix}[{k}]" for k in range(1, 5)]
    assert list(data.columns.values) == [*names, f"b.{suffix}"]


def test_images_of_two_depths_are_refused(tmp_path, stack, refused):
    folder = write_folder(tmp_path / "movie", stack)
    Image.fromarray(np.zeros(SHAPE, np.uint16)).save(folder / "frame5.png")
    refused(folder, "frame5.png has values of type uint16 where frame1.png has uint8")


def test_images_of_two_sizes_are_refused(tmp_path, stack, refused):
    folder = write_folder(tmp_path / "movie", stack)
    Image.fromarray(np.zeros((5, 6), np.uint8)).save(folder / "frame5.png")
    message = refused(folder, "has 5 × 6 pixels where frame1.png has 3 × 4")
    assert "frame5.png" in message


def test_a_damaged_image_is_named(tmp_path, stack, refused, cut):
    folder = write_folder(tmp_path / "movie", stack)
    cut(folder / "frame3.png")
    assert "frame3.png" in refused(folder, "cannot be read as an image")
    (folder / "frame3.png").write_text("not an image")
    refused(folder, "frame3.png cannot be read as an image (of no known format)")


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


def test_two_axes_of_frames_are_refused(tmp_path, rng, refused):
    movie = rng.integers(0, 256, (4, 2, *SHAPE), dtype=np.uint8)
    options = {"photometric": "minisblack", "metadata": {"axes": "TCYX"}}
    tifffile.imwrite(tmp_path / "x.ome.tif", movie, ome=True, **options)
    refused(tmp_path / "x.ome.tif", "more than one axis of frames (T=4, C=2)", "channel=1")
    data = read(tmp_path / "x.ome.tif", channel=2)
    np.testing.assert_array_equal(data.X, movie[:, 1].reshape(4, -1).T)
    refused(tmp_path / "x.ome.tif", "choose channel= from 1 to 2", channel=3)


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
