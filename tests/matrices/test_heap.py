import os
import subprocess
import sys

import pytest

from nmfmerge.matrices.dask import heap


class Library:
    """In the place of the C library: notes what it is told."""

    def __init__(self):
        self.settings = []

    def mallopt(self, what, value):
        self.settings.append((what, value))


@pytest.fixture
def library(monkeypatch):
    library = Library()
    monkeypatch.setattr(heap, "_glibc", lambda: library)
    return library


KEPT = [(-3, 2**25), (-1, 2**28)]


def test_memory_is_kept_while_any_pass_reads(library, monkeypatch):
    monkeypatch.setattr(heap, "_fixed_settings", lambda: {-3: 2**17, -1: 65536})
    with heap.kept_memory():
        assert library.settings == KEPT
        with heap.kept_memory():
            pass
        assert library.settings == KEPT
    assert library.settings == [*KEPT, (-3, 2**17), (-1, 65536)]


def test_settings_come_back_after_an_error(library, monkeypatch):
    monkeypatch.setattr(heap, "_fixed_settings", lambda: {-3: 1_000_000, -1: 65536})
    with pytest.raises(ZeroDivisionError), heap.kept_memory():
        raise ZeroDivisionError
    assert library.settings == [*KEPT, (-3, 1_000_000), (-1, 65536)]


def test_a_process_that_adapts_by_itself_is_left_alone(library, monkeypatch):
    monkeypatch.setattr(heap, "_fixed_settings", dict)
    with heap.kept_memory():
        pass
    assert library.settings == []


SETTINGS = """
import os
os.environ["MALLOC_TRIM_THRESHOLD_"] = "1"  # as a cluster that was started here does
from nmfmerge.matrices.dask.heap import _fixed_settings
print(_fixed_settings())
"""


@pytest.mark.skipif(heap._glibc() is None, reason="these are settings of glibc")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {}),
        ({"MALLOC_MMAP_THRESHOLD_": "99"}, {}),
        ({"MALLOC_TRIM_THRESHOLD_": "65536"}, {-3: 2**17, -1: 65536}),
        (
            {"MALLOC_TRIM_THRESHOLD_": "what", "MALLOC_MMAP_THRESHOLD_": "99999999999"},
            {-3: 2**31 - 1, -1: 2**17},
        ),
    ],
)
def test_settings_are_those_that_a_process_began_with(environment, expected):
    assert run(SETTINGS, environment) == str(expected)


def run(script, environment):
    others = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**others, **environment},
    )  # fmt: skip
    return process.stdout.strip()


FAULTS = """
import resource
from nmfmerge.matrices.dask.heap import give_back, kept_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        bytes(10_000_000).replace(b"0", b"1")
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

apart = faults()
with kept_memory():
    kept = faults()
give_back()
print(apart, kept, faults())
"""


@pytest.mark.skipif(heap._glibc() is None, reason="these are settings of glibc")
def test_memory_is_got_from_the_system_less_often():
    found = run(FAULTS, {"MALLOC_TRIM_THRESHOLD_": "65536"})
    apart, kept, after = map(int, found.split())
    assert kept < apart / 3
    assert after > apart / 2
