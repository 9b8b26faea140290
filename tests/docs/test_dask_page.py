"""The page on data larger than memory: its snippets run, its numbers are the measured ones."""

import re
from pathlib import Path

import pytest

from benchmarks.common import load

PAGE = Path(__file__).parents[2] / "docs" / "dask.md"
SNIPPETS = re.findall(
    r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
)


def test_snippets_run_in_order(tmp_path, monkeypatch):
    """All of them, with a cluster of two processes among them."""
    for module in ("distributed", "zarr", "xarray", "anndata", "pyarrow"):
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for i, snippet in enumerate(SNIPPETS):
        exec(compile(snippet, f"dask.md, snippet {i}", "exec"), namespace)
    assert namespace["result"].H.shape[0] == 4


def test_the_example_on_paper_is_the_measured_one():
    row = load("dask/on_paper")["rows"][0]
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"takes {row['seconds of a chunk']:.2f} s of one core" in text
    assert f"about {row['seconds of an iteration']:.0f} s an iteration" in text


def test_the_memory_of_factors_is_the_measured_one():
    sizes = {row["fit"]: row["in units of m·(r + k)"] for row in load("dask/factors")["rows"]}
    one, four = sizes["nmf_merge, 1 start"], sizes["nmf_merge, 4 starts"]
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{sizes['nmf, random start']:.0f} times m·r numbers in `nmf` from a random" in text
    assert f"{one:.0f} times m·(r + k) in `nmf_merge`" in text
    assert f"Each further start adds about {(four - one) / 3:.0f} times" in text
