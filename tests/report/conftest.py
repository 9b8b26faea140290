import pytest

from nmfmerge import datasets, nmf_merge
from nmfmerge.report import page

ABOUT = {
    "file": "runs/<script>alert(1)</script>.csv",
    "command": "nmfmerge fit 'a & b.csv' --components 5",
    "settings": {"Extra components": 1, "Solver": "hals", "Start": "nndsvd", "Seed": 0},
    "versions": {"nmfmerge": "0.1.0", "Python": "3.11"},
    "data_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "date": "2026-01-02",
    "notes": ["Two rows of zeros <were> left out."],
    "compare": {"standard_errors": [1.2, 1.1, 1.5], "merge_errors": [1.0, 1.1, 1.6]},
}


@pytest.fixture(scope="session")
def fitted():
    data = datasets.lcms_like(60, 90, 5)
    return data, nmf_merge(data.X, 5)


@pytest.fixture(scope="session")
def about():
    return ABOUT


@pytest.fixture(scope="session")
def html(fitted, about):
    data, result = fitted
    return page(result, data, about)
