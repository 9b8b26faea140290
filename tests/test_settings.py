"""Settings and defaults are those of `nmf_merge`, everywhere."""

import inspect
import re
from pathlib import Path

import pytest

from nmfmerge import NMFMerge, nmf, nmf_merge
from nmfmerge.cli import _parser
from nmfmerge.cli.settings import FLAGS, chosen_settings, settle_starts

FUNCTION = inspect.signature(nmf_merge).parameters
NOT_OPTIONS = {"X", "callback", "checkpoint", "hold", "keep_all", "tf32", "verbose"}


def defaults(parameters):
    return {name: parameter.default for name, parameter in parameters.items()}


def test_the_estimator_has_the_settings_of_the_function():
    expected = {name: value for name, value in defaults(FUNCTION).items() if name != "n_components"}
    estimator = defaults(inspect.signature(NMFMerge).parameters)
    assert estimator.pop("n_components") == 2
    left_out = ("X", "checkpoint", "keep_all")
    assert estimator == {n: v for n, v in expected.items() if n not in left_out}


def test_plain_nmf_has_the_same_defaults_but_one_start():
    plain = defaults(inspect.signature(nmf).parameters)
    assert plain.pop("n_init") == 1
    assert plain.items() <= defaults(FUNCTION).items()


def test_the_command_line_has_an_option_for_every_setting():
    assert set(FLAGS) == set(FUNCTION) - NOT_OPTIONS
    given = _parser().parse_args(["fit", "x.npy", "-r", "7"])
    settle_starts(given)
    settings = chosen_settings(given)
    assert settings.pop("n_components") == 7
    assert settings == {name: FUNCTION[name].default for name in settings}


@pytest.mark.parametrize("name", sorted(FLAGS))
def test_options_reach_the_argument(name):
    value = {"solver": "mu", "init": "random"}.get(name, "3")
    words = ["fit", "x.npy", "-r", "7", FLAGS[name], value]
    assert str(chosen_settings(_parser().parse_args(words))[name]) in (value, f"{value}.0")


def test_the_page_lists_the_option_of_every_setting():
    page = (Path(__file__).parents[1] / "docs/command-line.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `(?:-\w`, `)?(--[\w-]+)` \| `(\w+)` \|$", page, re.MULTILINE))
    assert table == {flag: name for name, flag in FLAGS.items()}
