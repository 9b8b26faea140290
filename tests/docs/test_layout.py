"""The table of folders in CONTRIBUTING.md is made from docstrings, and tests lie in such folders.

``python tests/docs/test_layout.py`` writes the table.
"""

import ast
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "nmfmerge"
PAGE = ROOT / "CONTRIBUTING.md"
TABLE = re.compile(r"(?<=^\| where \| what \|\n\|---\|---\|\n)(^\|.*\n)*", re.MULTILINE)
BESIDE = {"docs", "reproduce", "fuzz", "properties"}  # folders of tests that are about no folder


def layers():
    """The parts of the package as the import contract lists them, the top first."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (contract,) = (one for one in contracts if one["type"] == "layers")
    return [name for layer in contract["layers"] for name in re.split(r" [|:] ", layer)]


def paragraphs(path):
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return [" ".join(part.split()).replace("``", "`") for part in text.split("\n\n")]


def rows():
    """A row for each folder and module: a folder with two paragraphs, those inside with one."""
    for name in layers():
        folder = SOURCE / name
        if not folder.is_dir():
            if not name.startswith("_"):
                yield f"{name}.py", paragraphs(SOURCE / f"{name}.py")[0]
            continue
        yield f"{name}/", " ".join(paragraphs(folder / "__init__.py")[:2])
        for inner in sorted(folder.glob("*/__init__.py")):
            yield f"{name}/{inner.parent.name}/", paragraphs(inner)[0]


def table():
    return "".join(f"| `{where}` | {what} |\n" for where, what in rows())


def test_the_table_of_folders_is_that_of_the_docstrings():
    written = TABLE.search(PAGE.read_text(encoding="utf-8"))[0]
    assert written == table(), "write it again: python tests/docs/test_layout.py"


def test_every_folder_is_in_the_table():
    folders = {path.parent.relative_to(SOURCE) for path in SOURCE.rglob("*.py")} - {Path()}
    assert {Path(where) for where, _ in rows() if where.endswith("/")} == folders


def test_every_folder_of_tests_has_its_folder_in_the_package():
    tests = {path.parent.name for path in (ROOT / "tests").glob("*/test_*.py")} - BESIDE
    assert tests <= {path.parent.name for path in SOURCE.glob("*/__init__.py")}


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(TABLE.sub(lambda _: table(), page), encoding="utf-8")
