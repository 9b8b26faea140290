import subprocess
import sys

import numpy as np
import pynumpress
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmfmerge.io.numpress import decode_linear, decode_pic, decode_slof

LENGTHS = [0, 1, 2, 3, 50, 1001]


def packed(way, values, *scale):
    return getattr(pynumpress, f"encode_{way}")(np.asarray(values, dtype=float), *scale).tobytes()


@pytest.mark.parametrize("n", LENGTHS)
def test_linear_gives_back_masses_to_the_fixed_point(rng, n):
    masses = np.sort(rng.uniform(50, 2000, n))
    raw = packed("linear", masses, 1e5)
    np.testing.assert_allclose(decode_linear(raw), masses, atol=0.51e-5)
    if n > 1:  # their decoder refuses a single value
        np.testing.assert_array_equal(
            decode_linear(raw), pynumpress.decode_linear(np.frombuffer(raw, np.uint8))
        )


@pytest.mark.parametrize("n", LENGTHS)
def test_linear_bends_both_ways(rng, n):
    values = rng.uniform(0, 10_000, n)
    np.testing.assert_allclose(decode_linear(packed("linear", values, 1e3)), values, atol=0.51e-3)


@pytest.mark.parametrize("n", LENGTHS)
def test_slof_gives_back_logarithms_to_the_fixed_point(rng, n):
    values = rng.lognormal(8, 3, n)
    scale = pynumpress.optimal_slof_fixed_point(values) if n else 1.0
    decoded = decode_slof(packed("slof", values, scale))
    np.testing.assert_allclose(np.log1p(decoded), np.log1p(values), atol=0.51 / scale)


@pytest.mark.parametrize("n", LENGTHS)
def test_pic_gives_back_counts(rng, n):
    counts = np.floor(rng.lognormal(5, 4, n))
    np.testing.assert_array_equal(decode_pic(packed("pic", counts)), counts)


def test_an_array_cut_short_is_an_error():
    raw = packed("pic", [1.0, 100_000.0])
    with pytest.raises(ValueError, match="cut short"):
        decode_pic(raw[:-1])


@given(
    st.lists(st.integers(0, 2**29), min_size=2, max_size=50),
    st.sampled_from([1.0, 1e3, 1e5]),
)
def test_linear_gives_back_any_fixed_points(values, scale):
    """Also those so far from a straight line that no half byte is left out."""
    raw = packed("linear", np.array(values) / scale, scale)
    np.testing.assert_allclose(decode_linear(raw), np.array(values) / scale, atol=0.51 / scale)


CHILD = """
import sys
import numpy as np
import pynumpress
from nmfmerge.io.numpress import decode_linear, decode_pic, decode_slof

rng, damaged = np.random.default_rng(int(sys.argv[1])), 0
for _ in range(5000):
    values = np.sort(rng.integers(0, 2**31, rng.integers(0, 20)).astype(float))
    decode, encoded = (
        (decode_linear, lambda: pynumpress.encode_linear(values, 1.0)),
        (decode_slof, lambda: pynumpress.encode_slof(values, 3000.0)),
        (decode_pic, lambda: pynumpress.encode_pic(values)),
    )[rng.integers(3)]
    raw = bytearray(encoded().tobytes())
    for at in rng.integers(0, max(len(raw), 1), rng.integers(0, 4)):
        raw[at : at + 1] = rng.bytes(1)
    raw = bytes(raw[: rng.integers(0, len(raw) + 1)]) if rng.random() < 0.5 else bytes(raw)
    try:
        decode(raw)
    except ValueError:
        damaged += 1
print(damaged)
"""


def test_damaged_arrays_are_errors_and_do_not_end_the_process():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, "0"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert 1000 < int(done.stdout) < 5000
