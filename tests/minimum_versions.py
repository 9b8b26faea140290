"""Install the oldest dependencies that pyproject.toml allows, and use the package with them.

Run ``python tests/minimum_versions.py``. It makes a virtual environment in a temporary folder,
installs the package there with every base dependency and Dask at their lower bounds, and runs
`smoke` in it.
"""

import subprocess
import sys
import tempfile
import tomllib
import venv
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dask.array as da
    import numpy as np

ROOT = Path(__file__).resolve().parents[1]


def lower_bounds() -> dict[str, str]:
    """The base dependencies and Dask, with their lower bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = [*project["dependencies"], *project["optional-dependencies"]["dask"]]
    return dict(requirement.split(">=") for requirement in requirements)


def versions() -> dict[str, str]:
    """What is installed of these."""
    return {name: version(name.partition("[")[0]) for name in lower_bounds()}


def main() -> None:
    bounds = lower_bounds()
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / ("Scripts" if sys.platform == "win32" else "bin") / "python"
        exact = [f"{name}=={bound}" for name, bound in bounds.items()]
        subprocess.run([python, "-m", "pip", "install", "--quiet", str(ROOT), *exact], check=True)
        subprocess.run([python, __file__, "smoke"], check=True, cwd=folder)


def smoke() -> None:
    """Fit, merge, transform, draw and report."""
    import numpy as np
    import scipy.sparse as sp

    import nmfmerge
    from nmfmerge import NMFMerge, datasets, merge_components, nmf, nmf_merge, report

    assert ROOT not in Path(nmfmerge.__file__).parents, "the installed package is to be used"
    for name, bound in lower_bounds().items():
        found = versions()[name]
        assert f"{found}.0".startswith(f"{bound}."), f"{name} is {found}, not {bound}"

    data = datasets.lcms_like()
    loose = {"tol": 1e-3, "init": "nndsvd"}
    for X in (data.X, data.X.astype(np.float32), sp.csr_matrix(data.X), sp.csr_array(data.X)):
        assert nmf(X, 4, **loose).converged
    result = nmf_merge(data.X, 4, n_extra=2, **loose)
    assert result.converged
    assert result.merges is not None
    W, H, tree = merge_components(result.W, result.H, 3)
    assert W.shape == (len(data.X), 3)
    assert H.shape == (3, data.X.shape[1])
    assert len(tree.penalties) == 1
    model = NMFMerge(n_components=3, tol=1e-3)
    W = model.fit_transform(data.X)
    assert model.transform(data.X).shape == W.shape
    assert report.page(result, data).count("<figure") > 3
    subprocess.run([sys.executable, "-m", "nmfmerge", "demo", "--starts", "1"], check=True)
    on_dask(data.X, nmf(data.X, 4, **loose).fitting_error)
    print("works with", ", ".join(f"{name} {found}" for name, found in versions().items()))


def on_dask(X: "np.ndarray", expected: float) -> None:
    """Fit a Dask array in threads, and on a worker process; persisted data, too."""
    import dask.array as da
    import distributed

    from nmfmerge import nmf

    def error(chunks: "da.Array") -> float:
        result = nmf(chunks, 4, tol=1e-3, init="nndsvd")
        assert result.W.compute().shape == (len(X), 4)
        return result.fitting_error

    chunks = da.from_array(X, chunks=(len(X) // 4, -1))
    errors = [error(chunks)]
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with cluster, distributed.Client(cluster):
        errors += [error(chunks), error(chunks.persist())]
    assert max(errors) <= expected * (1 + 1e-6), (errors, expected)


if __name__ == "__main__":
    if sys.argv[1:] == ["smoke"]:
        smoke()
    else:
        main()
