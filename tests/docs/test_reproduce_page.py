"""The page on the experiments shows commands and names that exist."""

import re
import shlex
from pathlib import Path

from reproduce.__main__ import NAMES, OF_ALL, _parser

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "reproduce" / "README.md").read_text(encoding="utf-8")


def test_every_command_is_accepted_by_the_parser():
    commands = re.findall(r"^python -m reproduce (.*)$", PAGE, re.MULTILINE)
    assert len(commands) >= 8
    for command in commands:
        _parser().parse_args(shlex.split(command, comments=True))


def test_the_table_names_every_experiment():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == {*NAMES, *OF_ALL}


def test_the_page_counts_the_runs_of_the_results():
    results = (ROOT / "reproduce" / "RESULTS.md").read_text(encoding="utf-8")
    made, planned = re.search(r"Numbers of (\d+) runs of (\d+) planned", results).groups()
    many, minutes = re.search(
        r"(\d+) of the runs were made .*?, in ([\d.]+) minutes", results
    ).groups()
    text = " ".join(PAGE.split())
    assert f"has {made} of {planned} planned runs" in text
    assert f"{many} of them were made on a GPU, in {minutes} minutes" in text
