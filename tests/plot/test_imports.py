import subprocess
import sys

import nmfmerge.plot


def test_only_plot_imports_matplotlib_and_never_pyplot():
    code = """
import sys
import nmfmerge
print("matplotlib" in sys.modules)
import nmfmerge.plot, nmfmerge.report
print("matplotlib" in sys.modules, "matplotlib.pyplot" in sys.modules)
"""
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["False", "True", "False"]


def test_names_are_frozen():
    assert nmfmerge.plot.__all__ == [
        "clustergram", "comparison", "components", "consensus", "convergence", "maps", "merges",
        "paired_starts", "rank_path", "reconstruction", "sample_usages", "signatures",
        "singular_values", "starts", "usage_maps",
    ]  # fmt: skip
