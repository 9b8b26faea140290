import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from nmfmerge.matrices import wrap
from nmfmerge.matrices.digest import _SIDE

SHAPES = st.tuples(st.integers(1, 2 * _SIDE + 1), st.integers(1, 40))


def sample(shape, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (rng.random(shape) * (rng.random(shape) < 0.5)).astype(dtype)


@given(SHAPES, st.booleans(), st.sampled_from([np.float32, np.float64]))
def test_a_digest_does_not_depend_on_memory_order(shape, turned, dtype):
    X = sample(shape, 0, dtype)
    X = X.T if turned else X
    same = (np.ascontiguousarray(X), np.asfortranarray(X), np.where(X == 0, -0.0, X))
    digests = {wrap(Y.astype(dtype, copy=False)).digest() for Y in same}
    assert len(digests) == 1


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, sp.csc_array])
@given(SHAPES, st.data())
def test_any_change_of_a_value_changes_the_digest(kind, shape, data):
    X = sample(shape, 0)
    Y = X.copy()
    i, j = (data.draw(st.integers(0, side - 1)) for side in shape)
    Y[i, j] = np.nextafter(Y[i, j], 2)
    assert wrap(kind(X)).digest() != wrap(kind(Y)).digest()


def test_shapes_types_and_kinds_are_told_apart():
    X = sample((6, 4), 0)
    kinds = [
        X, X.reshape(4, 6), X.reshape(3, 8), X.astype(np.float32), sp.csr_array(X),
        sp.csc_array(X), sp.csr_array(np.hstack([X, np.zeros((6, 1))])),
    ]  # fmt: skip
    assert len({wrap(kind).digest() for kind in kinds}) == len(kinds)


def test_the_width_of_indices_does_not_count():
    X = sp.csr_array(sample((6, 4), 0))
    wide = X.copy()
    wide.indices, wide.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    assert wrap(X).digest() == wrap(wide).digest()
