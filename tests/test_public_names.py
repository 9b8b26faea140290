import inspect
import subprocess
import sys

import pytest

import nmfmerge
from nmfmerge import datasets, export, io, jobs, plot, report

PUBLIC = [
    "Consensus", "DataReadError", "Editor", "Factorization", "History", "Interrupted", "MergeTree",
    "NMFMerge", "Progress", "RankConsensus", "RankPath", "Spread", "Stage", "Start", "Status",
    "consensus", "datasets", "explore", "merge_components",
    "metrics", "nmf", "nmf_merge", "rank_path", "recover_components", "transform",
]  # fmt: skip


DATASETS = [
    "Axis", "Dataset", "gaussian_features", "lcms_like", "melody", "mutation_catalogue",
    "paper_example",
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
        jobs: ["Activities", "Catalogue", "Programs", "Signatures", "programs", "refit",
               "signatures"],
        plot: ["clustergram", "comparison", "components", "consensus", "convergence", "maps",
               "merges", "paired_starts", "rank_path", "reconstruction", "sample_usages",
               "signatures", "singular_values", "starts", "usage_maps"],
        report: ["page", "warnings_of"],
    }.items():  # fmt: skip
        assert sorted(module.__all__) == names
        assert all(hasattr(module, name) for name in names)


def test_signatures_are_frozen():
    shared = [
        "solver",
        "beta_loss",
        "missing",
        "init",
        "n_init",
        "return_all",
        "alpha_W",
        "alpha_H",
        "l1_ratio",
        "hold",
        "tol",
        "max_iter",
        "max_time",
        "random_state",
        "callback",
        "checkpoint",
        "n_jobs",
        "device",
        "tf32",
        "verbose",
    ]
    assert list(inspect.signature(nmfmerge.nmf).parameters) == [
        "X",
        "n_components",
        "weights",
        "layer",
        "mask_var",
        *shared,
    ]
    merged = list(inspect.signature(nmfmerge.nmf_merge).parameters)
    assert sorted(merged) == sorted(
        [
            "X",
            "n_components",
            "weights",
            "layer",
            "mask_var",
            "n_extra",
            "tol_intermediate",
            *shared,
        ]
    )
    estimator = list(inspect.signature(nmfmerge.NMFMerge).parameters)
    assert estimator == [
        name for name in merged[1:] if name not in ("weights", "checkpoint", "return_all")
    ]
    merge = inspect.signature(nmfmerge.merge_components)
    assert str(merge).startswith(
        "(W: numpy.ndarray, H: numpy.ndarray, n_components: int = 1, *, "
        "beta_loss: str = 'frobenius', max_penalty: float | None "
    )


def test_estimator_and_function_have_the_same_defaults():
    function = inspect.signature(nmfmerge.nmf_merge).parameters
    estimator = inspect.signature(nmfmerge.NMFMerge).parameters
    for name, parameter in estimator.items():
        if name != "n_components":
            assert parameter.default == function[name].default


def loaded_by(code):
    """The modules that a fresh process has loaded in the end."""
    code += "\nimport sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_public_names_are_imported_when_they_are_used():
    assert "numpy" not in loaded_by("import nmfmerge; nmfmerge.explore, dir(nmfmerge)")


def test_names_that_are_not_there_are_no_attributes():
    with pytest.raises(AttributeError, match="module 'nmfmerge' has no attribute 'missing'"):
        nmfmerge.missing  # noqa: B018


def test_a_function_stays_when_the_package_of_its_name_is_imported():
    loaded_by("import nmfmerge.explore.words; assert callable(nmfmerge.explore)")
    loaded_by("import nmfmerge.consensus.engine; assert callable(nmfmerge.consensus)")


def test_import_compiles_nothing_and_leaves_heavy_libraries_alone():
    code = """
import sys
from numba.core.registry import CPUDispatcher
import nmfmerge, nmfmerge.backends.numba as k
kernels = [f for f in vars(k).values() if isinstance(f, CPUDispatcher)]
assert len(kernels) > 3
compiled = [f for f in kernels if f.signatures]
heavy = [m for m in ("matplotlib", "torch", "triton", "dask") if m in sys.modules]
print(compiled, heavy)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[] []"
