import pytest


@pytest.fixture
def _small_spans(monkeypatch):
    """Go through X in more steps than its size asks for: bands of few rows."""
    for name, value in {"_BYTES": 1000, "_BYTES_A_COLUMN": 1, "_LEAST_ROWS": 2}.items():
        monkeypatch.setattr(f"nmfmerge.matrices.dask.spans.{name}", value)


@pytest.fixture(params=["together", "apart"])
def _spans(request):
    """Chunks that are put together, as small ones are; and small spans."""
    if request.param == "apart":
        request.getfixturevalue("_small_spans")
