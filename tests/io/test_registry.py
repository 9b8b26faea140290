import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from nmfmerge import io
from nmfmerge.io import FORMATS, FormatError, MissingLibrary, read
from nmfmerge.io.options import OPTIONS

FILES = sorted({suffix for fmt in FORMATS.values() for suffix in fmt.suffixes})


def test_public_names_are_these():
    names = ["FORMATS", "FormatError", "MissingLibrary", "ReadingWarning", "describe"]
    assert io.__all__ == [*names, "open_lazily", "read"]
    assert issubclass(FormatError, ValueError)
    assert issubclass(MissingLibrary, FormatError)


def test_every_format_says_what_it_takes():
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    extras = extras["project"]["optional-dependencies"]
    for name, fmt in FORMATS.items():
        assert fmt.name == name
        assert fmt.description
        assert "transpose" in fmt.options
        assert set(fmt.options) <= set(OPTIONS)
        assert fmt.extra is None or fmt.extra in extras
    assert len(FILES) == sum(len(fmt.suffixes) for fmt in FORMATS.values())


def test_optional_libraries_are_not_imported_before_they_are_used():
    optional = "h5py zarr anndata PIL tifffile soundfile"
    code = (
        "import sys, nmfmerge\n"
        "assert 'nmfmerge.io' not in sys.modules\n"
        "import nmfmerge.io\n"
        f"print(*[name for name in '{optional}'.split() if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_name_and_source_are_the_files(tmp_path, X):
    np.save(tmp_path / "My.Run.NPY", X)
    (tmp_path / "My.Run.NPY.npy").rename(tmp_path / "My.Run.NPY")
    data = read(str(tmp_path / "My.Run.NPY"))
    assert data.name == "My.Run"
    assert data.source == str(tmp_path / "My.Run.NPY")
    assert data.n_components is None
    np.testing.assert_array_equal(data.X, X)


def test_a_missing_file_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent.csv was not found: check its name"):
        read(tmp_path / "absent.csv")


def test_an_unknown_suffix_lists_what_is_known(tmp_path, refused):
    (tmp_path / "table.docx").write_bytes(b"PK")
    refused(tmp_path / "table.docx", "unknown suffix", *FILES)


@pytest.mark.parametrize("suffix", FILES)
def test_an_empty_file_is_refused(tmp_path, refused, suffix):
    path = tmp_path / f"empty{suffix}"
    path.write_bytes(b"")
    refused(path, "is an empty file")


@pytest.mark.parametrize("suffix", FILES)
def test_bytes_that_mean_nothing_are_refused(tmp_path, refused, rng, suffix):
    path = tmp_path / f"noise{suffix}"
    path.write_bytes(rng.bytes(5000))
    refused(path)


@pytest.mark.parametrize("suffix", FILES)
def test_words_instead_of_data_are_refused(tmp_path, refused, suffix):
    path = tmp_path / f"words{suffix}"
    path.write_text("once upon a time\nthere was a matrix\n")
    refused(path)


def test_an_option_of_another_format_is_refused(tmp_path, X):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(ValueError, match=r"window=512 is not an option .*'npy'.* takes pixel_axes"):
        read(tmp_path / "x.npy", window=512)
    np.savez(tmp_path / "x.npz", X)
    with pytest.raises(
        ValueError,
        match=r"lag=1 .*'npz', which takes variable, pixel_axes, .*transpose, max_memory$",
    ):
        read(tmp_path / "x.npz", lag=1)


@pytest.mark.parametrize(
    ("suffix", "options", "words"),
    [
        (".wav", {"window": 1.5}, r"window=1.5 .*expected a whole number of at least 2"),
        (".wav", {"hop": 0}, r"hop=0 .*expected a whole number of at least 1"),
        (".cdf", {"mz_bin": 0}, r"mz_bin=0 .*expected a number above 0"),
        (".cdf", {"mz_bin": float("nan")}, r"mz_bin=nan .*expected a number above 0"),
        (".cdf", {"mz_min": "a"}, r"mz_min='a' .*expected a number"),
        (".cdf", {"time_bin": True}, r"time_bin=True .*expected a number above 0"),
        (".cdf", {"mz_min": 9, "mz_max": 9}, r"mz_min=9 is not below mz_max=9"),
        (".cdf", {"time_min": 2, "time_max": 1}, r"time_min=2 is not below time_max=1"),
        (".csv", {"transpose": 1}, r"transpose=1 .*expected True or False"),
        (".npz", {"variable": 3}, r"variable=3 .*expected a name"),
        (".npz", {"max_memory": "much"}, r"max_memory='much' is not a size: .*'8GB'"),
        (".npz", {"max_memory": True}, r"max_memory=True .*expected a name or a number"),
        (".wav", {"channel": 0}, r"channel=0 is not a channel: write a number from 1"),
        (".wav", {"channel": "left"}, r"channel='left' is not a channel"),
        (".tif", {"channel": 1.5}, r"channel=1.5 is not a channel"),
    ],
)
def test_a_wrong_value_of_an_option_says_what_was_expected(tmp_path, suffix, options, words):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"data")
    with pytest.raises(ValueError, match=words) as caught:
        read(path, **options)
    assert not isinstance(caught.value, FormatError)


def test_none_leaves_an_option_out(tmp_path, X):
    np.savez(tmp_path / "x.npz", X=X)
    data = read(tmp_path / "x.npz", variable=None, transpose=None)
    np.testing.assert_array_equal(data.X, X)


def test_a_file_that_asks_for_too_much_memory_is_refused(tmp_path, refused):
    header = "{'descr': '<f8', 'fortran_order': False, 'shape': (9000000, 90000000), }"
    header = header.ljust(117) + "\n"
    path = tmp_path / "huge.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    refused(path)
