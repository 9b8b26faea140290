import numpy as np
import pytest

import nmfmerge.cli.report  # noqa: F401  (it takes `pages` before a test replaces them)
from nmfmerge import datasets


@pytest.fixture
def X():
    return datasets.lcms_like(40, 60, 6).X


@pytest.fixture
def file(tmp_path, X):
    """A small data file, in the folder that the test works in."""
    path = tmp_path / "run.npy"
    np.save(path, X)
    return path


@pytest.fixture
def command(capsys):
    """Run the command line in this process; return exit code, stdout and stderr."""
    from nmfmerge.cli import main

    def run(*words):
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def drawn():
    """For tests that look at the report and the figures; all others do without, to save time."""


@pytest.fixture(autouse=True)
def _quick_pages(request, monkeypatch):
    if "drawn" not in request.fixturenames:
        page = {"report.html": "<!DOCTYPE html>"}
        monkeypatch.setattr("nmfmerge.cli.common.pages", lambda fit, bar=None: page)
