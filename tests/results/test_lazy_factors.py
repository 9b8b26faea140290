from dataclasses import replace

import numpy as np
import pytest

from nmfmerge import nmf
from nmfmerge.inputs.lazy import is_lazy
from nmfmerge.results.lazy_factors import computed, is_mapped, mapped_file

da = pytest.importorskip("dask.array")
M, N, R = 300, 30, 4


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    return nmf(rng.random((M, R)) @ rng.random((R, N)), R, tol=1e-3)


def lazy(result, name, n_chunks=70):
    F = getattr(result, name)
    chunks = (-(-M // n_chunks), R) if name == "W" else (R, 1)
    return replace(result, **{name: da.from_array(F, chunks=chunks)})


@pytest.mark.parametrize("name", ["W", "H"])
@pytest.mark.parametrize("most", [0, 10**9])
def test_a_lazy_factor_is_computed_in_memory_or_in_a_file(result, name, most, tmp_path):
    shares = []
    found = computed(lazy(result, name), tmp_path, most, shares.append)
    F = getattr(found, name)
    np.testing.assert_array_equal(F, getattr(result, name))
    assert F.dtype == getattr(result, name).dtype
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert (F.T if name == "W" else F).flags.c_contiguous  # component by component
    assert is_mapped(F) == (most == 0)
    if most == 0:
        assert mapped_file(F) == tmp_path / f"{name}.npy"
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), F)
    else:
        assert mapped_file(F) is None
        assert not list(tmp_path.iterdir())


def test_few_chunks_are_computed_at_once(result, tmp_path):
    alive, most = 0, 0

    def chunk(block):
        nonlocal alive, most
        alive += 1
        most = max(most, alive)
        return block

    W = da.from_array(result.W, chunks=(3, R)).map_blocks(chunk, meta=result.W[:0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nmfmerge.results.lazy_factors._AT_ONCE", 8)

        def tick(share):
            nonlocal alive
            alive = 0

        computed(replace(result, W=W), tmp_path, 0, tick)
    assert most == 8


def test_a_result_of_arrays_is_left_as_it_is(result, tmp_path):
    assert not is_lazy(result.W)
    assert computed(result, tmp_path, 0) is result
