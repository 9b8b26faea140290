import inspect
import subprocess
import sys

import nmfmerge
from nmfmerge import datasets, export, io, plot, report

PUBLIC = [
    "Editor", "Factorization", "History", "Interrupted", "MergeTree", "NMFMerge", "Progress",
    "RankPath", "Spread", "Stage", "Start", "Status", "Unreadable",
    "datasets", "explore", "merge_components",
    "metrics", "nmf", "nmf_merge", "rank_path", "recover_components", "transform",
]  # fmt: skip


DATASETS = [
    "Axis", "Dataset", "gaussian_features", "lcms_like", "melody", "paper_example",
]  # fmt: skip


def test_data_sets_of_the_package_are_generated_and_frozen():
    assert sorted(datasets.__all__) == DATASETS
    assert all(hasattr(datasets, name) for name in DATASETS)
    assert not [name for name in dir(datasets) if name.startswith("load")]


def test_public_names_are_frozen():
    assert sorted(nmfmerge.__all__) == PUBLIC
    assert all(hasattr(nmfmerge, name) for name in PUBLIC)


def test_names_of_the_packages_are_frozen():
    for module, names in {
        export: ["EXPORTS", "Export", "maps", "suitable", "to_anndata", "top_names", "write"],
        io: ["FORMATS", "FormatError", "MissingLibrary", "ReadingWarning", "describe",
             "open_lazily", "read"],
        plot: ["comparison", "components", "convergence", "maps", "merges", "paired_starts",
               "rank_path", "reconstruction", "singular_values", "starts"],
        report: ["page", "warnings_of"],
    }.items():  # fmt: skip
        assert sorted(module.__all__) == names
        assert all(hasattr(module, name) for name in names)


def test_signatures_are_frozen():
    shared = [
        "solver",
        "init",
        "n_init",
        "keep_all",
        "hold",
        "tol",
        "max_iter",
        "max_time",
        "random_state",
        "callback",
        "checkpoint",
        "device",
        "tf32",
        "verbose",
    ]
    assert list(inspect.signature(nmfmerge.nmf).parameters) == ["X", "n_components", *shared]
    merged = list(inspect.signature(nmfmerge.nmf_merge).parameters)
    assert sorted(merged) == sorted(["X", "n_components", "n_extra", "tol_intermediate", *shared])
    estimator = list(inspect.signature(nmfmerge.NMFMerge).parameters)
    assert estimator == [name for name in merged[1:] if name not in ("checkpoint", "keep_all")]
    merge = inspect.signature(nmfmerge.merge_components)
    assert str(merge).startswith("(W: numpy.ndarray, H: numpy.ndarray, n_components: int = 1, *, "
                                 "max_penalty: float | None = None, order:")  # fmt: skip


def test_estimator_and_function_have_the_same_defaults():
    function = inspect.signature(nmfmerge.nmf_merge).parameters
    estimator = inspect.signature(nmfmerge.NMFMerge).parameters
    for name, parameter in estimator.items():
        if name != "n_components":
            assert parameter.default == function[name].default


def test_import_compiles_nothing_and_leaves_heavy_libraries_alone():
    code = """
import sys
from numba.core.registry import CPUDispatcher
import nmfmerge, nmfmerge.kernels as k
kernels = [f for f in vars(k).values() if isinstance(f, CPUDispatcher)]
assert len(kernels) > 3
compiled = [f for f in kernels if f.signatures]
heavy = [m for m in ("matplotlib", "torch", "triton", "dask") if m in sys.modules]
print(compiled, heavy)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[] []"
