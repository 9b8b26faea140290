from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nmfmerge.io.bands import LARGEST, Workers, choose_bands
from nmfmerge.io.errors import FormatError

FILE = Path("big.zarr")
sizes = st.integers(1, 10**7)
GB = 10**9


@given(sizes, sizes, sizes, sizes, st.sampled_from([4.0, 8.0]), st.integers(10**8, 10**11))
def test_a_band_is_of_whole_stored_chunks_and_fits_into_a_quarter_of_the_memory(
    m, n, rows, columns, item_size, memory
):
    assume(rows <= m and columns <= n)
    try:
        bands = choose_bands(FILE, (m, n), (rows, columns), item_size, Workers(memory))
    except FormatError:
        assert min(rows * n, m * columns) * item_size > memory // 4
        return
    unit, length, across = ((rows, m, n), (columns, n, m))[bands.axis]
    assert bands.length == length or bands.length % unit == 0
    assert bands.length * across * item_size <= memory // 4
    if bands.length > unit:
        assert bands.length * across * item_size <= LARGEST


@given(st.integers(1, 300), st.integers(1, 1000))
def test_bands_of_small_chunks_are_of_16_to_32_megabytes(rows, columns):
    bands = choose_bands(FILE, (10**7, 1000), (rows, columns), 8.0, Workers(8 * GB))
    assert bands.axis == 0
    assert LARGEST / 2 < bands.length * 1000 * 8 <= LARGEST


@pytest.mark.parametrize(
    ("shape", "stored", "axis"),
    [
        ((10**6, 2000), (1000, 2000), 0),
        ((10**6, 2000), (1000, 100), 0),
        ((2000, 10**6), (100, 1000), 1),
        ((2000, 10**7), (2, 10**7), 0),  # wide, but stored by rows
        ((10**7, 2000), (10**7, 1), 1),  # tall, but stored by columns
    ],
)
def test_bands_go_across_the_longer_side_unless_the_store_forbids_it(shape, stored, axis):
    assert choose_bands(FILE, shape, stored, 4.0, Workers(8 * GB)).axis == axis


def test_bands_leave_room_for_several_in_little_memory():
    bands = choose_bands(FILE, (10**6, 1000), (10, 1000), 8.0, Workers(160 * 10**6))
    assert bands.length * 1000 * 8 <= 10**7


@pytest.mark.parametrize("n_threads", [1, 2, 40])
def test_every_thread_of_a_cluster_has_bands(n_threads):
    workers = Workers(8 * GB, 1, n_threads)
    bands = choose_bands(FILE, (20_000, 300), (500, 300), 4.0, workers)
    assert -(-20_000 // bands.length) >= min(2 * n_threads, 40)
    assert bands.length % 500 == 0


def test_chunks_that_are_too_large_are_refused_with_the_fix():
    with pytest.raises(FormatError) as error:
        choose_bands(FILE, (10**6, 10**5), (50_000, 10_000), 8.0, Workers(8 * GB))
    assert str(error.value) == (
        "big.zarr is stored in chunks of 50000 × 10000, so that the smallest band of whole rows "
        "takes 40 GB of memory, more than a quarter of the 8 GB that there are: store it again in "
        "chunks of 40 × 100000, or allow more with memory="
    )
    better = choose_bands(FILE, (10**6, 10**5), (40, 100_000), 8.0, Workers(8 * GB))
    assert better.length == 40
