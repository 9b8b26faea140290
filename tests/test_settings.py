"""Names, defaults, order, checks, options, labels and identities come from `nmfmerge.settings`."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

from nmfmerge import Editor, NMFMerge, cli, consensus, jobs, nmf, nmf_merge, rank_path, settings
from nmfmerge.arguments.values import Number
from nmfmerge.cli.settings import chosen_settings, options_of, setting_words
from nmfmerge.method.init import INITS
from nmfmerge.settings import REQUIRED, SETTINGS, Setting
from nmfmerge.solvers import SOLVERS
from nmfmerge.storage.checkpoint import OtherRun

FUNCTIONS = {
    "nmf": nmf,
    "nmf_merge": nmf_merge,
    "NMFMerge": NMFMerge,
    "rank_path": rank_path,
    "programs": jobs.programs,
    "signatures": jobs.signatures,
    "consensus": consensus,
    "Editor": Editor,
}
# Arguments that are no settings.
DATA = {"X", "W", "H", "weights", "names", "held", "adata", "table"}
OF_START_AND_X = {"beta_loss", "missing"}  # of `Editor`
X = np.random.default_rng(0).random((8, 6))


def signature(function):
    parameters = inspect.signature(function).parameters
    return {
        name: REQUIRED if parameter.default is inspect.Parameter.empty else parameter.default
        for name, parameter in parameters.items()
        if name not in DATA and not (function is Editor and name in OF_START_AND_X)
    }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_signature_has_the_declared_names_and_defaults_in_their_order(name):
    assert list(signature(FUNCTIONS[name]).items()) == list(settings.defaults(name).items())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_names_every_setting_in_order(name):
    text = inspect.getdoc(FUNCTIONS[name])
    section = re.split(r"\n\n\w[^\n]*\n-+\n", text.split("Parameters\n----------\n")[1])[0]
    heads = [re.sub(" : .*", "", line) for line in section.splitlines() if line[:1].strip()]
    named = [name for head in heads for name in head.split(", ")]
    no_settings = DATA | (OF_START_AND_X if name == "Editor" else set())
    assert [name for name in named if name not in no_settings] == list(settings.of(name))


def test_every_setting_belongs_to_a_function_that_is_known():
    assert {name for setting in SETTINGS.values() for name in setting.of} == set(FUNCTIONS)


def test_words_are_those_of_the_registries():
    assert SETTINGS["solver"].takes.words == tuple(SOLVERS)
    assert set(SETTINGS["init"].takes.words) == set(INITS)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_takes_its_defaults(name):
    setting = SETTINGS[name]
    for default in setting.of.values():
        if default is not REQUIRED:
            assert setting.check(default) == default


def test_a_setting_with_an_option_has_a_label_in_reports():
    assert [s.name for s in SETTINGS.values() if bool(s.flags) != bool(s.label)] == []


def test_options_have_the_defaults_of_their_functions():
    given = cli._parser().parse_args(["fit", "x.npy", "-r", "7"])
    chosen = chosen_settings(given, "nmf_merge")
    defaults = settings.defaults("nmf_merge") | {"n_components": 7}
    assert chosen == {name: defaults[name] for name in options_of("nmf_merge")}
    assert setting_words(chosen, "nmf_merge") == ["-r", "7"]
    given = cli._parser().parse_args(["path", "x.npy", "--max", "7"])
    assert setting_words(chosen_settings(given, "rank_path"), "rank_path") == ["--max", "7"]


def test_plain_nmf_on_the_command_line_has_one_start():
    given = cli._parser().parse_args(["fit", "x.npy", "-r", "7", "-k", "0"])
    assert chosen_settings(given, "nmf_merge")["n_init"] == settings.defaults("nmf")["n_init"] == 1


@pytest.mark.parametrize("name", options_of("nmf_merge"))
def test_an_option_reaches_its_argument(name):
    words = {"solver": "mu", "init": "random", "beta_loss": "kullback-leibler", "missing": "zeros"}
    value = words.get(name, "3")
    words = ["fit", "x.npy", "-r", "7", SETTINGS[name].flags[-1], value]
    chosen = chosen_settings(cli._parser().parse_args(words), "nmf_merge")
    assert str(chosen[name]) in (value, f"{value}.0")


def test_the_page_lists_the_option_of_every_setting():
    page = (Path(__file__).parents[1] / "docs/command-line.md").read_text(encoding="utf-8")
    table = dict(re.findall(r"^\| `(?:-\w`, `)?(--[\w-]+)` \| `(\w+)` \|$", page, re.MULTILINE))
    assert table == {s.flags[-1]: name for name, s in options_of("nmf_merge").items()}


@pytest.fixture
def smoothness(monkeypatch):
    """A setting that is not there, declared by one entry, and taken by one function."""
    declared = Setting(
        "smoothness",
        Number(0, high=1),
        {"nmf_merge": 0.5},
        "how smooth the components are",
        ("--smoothness",),
        label="Smoothness",
    )
    monkeypatch.setitem(SETTINGS, "smoothness", declared)
    used = []

    def smooth(X, n_components, **others):  # a function whose signature has the setting, too
        given = settings.checked("nmf_merge", settings.defaults("nmf_merge") | others | locals())
        used.append(given["smoothness"])
        return nmf(X, n_components, tol=1e-2)

    monkeypatch.setattr("nmfmerge.cli.fit.nmf_merge", smooth)
    monkeypatch.setattr("nmfmerge.cli.common.nmf_merge", smooth)
    return used


def test_a_new_setting_is_one_entry_and_its_use(smoothness, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", X)
    words = ["fit", "x.npy", "-r", "2", "--no-compare", "--smoothness"]
    assert cli.main([*words, "0.25", "--json"]) == 0
    assert smoothness[-1] == 0.25
    page = Path("x.npy.nmf/report.html").read_text(encoding="utf-8")
    assert re.search("Smoothness.{1,20}0.25", page)
    assert "--smoothness 0.25" in page
    assert cli.main([*words, "0.75", "--resume"]) == 1
    assert "--smoothness 0.25, now 0.75" in capsys.readouterr().err
    assert cli.main([*words, "2", "--force"]) == 1
    assert "--smoothness 2.0 is out of range; expected a number from 0 to 1" in (
        capsys.readouterr().err
    )


def test_a_setting_that_decides_is_part_of_what_a_checkpoint_is_of(tmp_path, monkeypatch):
    file = tmp_path / "state"
    nmf(X, 2, checkpoint=file, max_time=60)
    nmf(X, 2, checkpoint=file, max_time=70)
    with pytest.raises(OtherRun) as refused:
        nmf(X, 2, checkpoint=file, tol=1e-3, solver="mu")
    assert set(refused.value.differences) == {"tol", "solver"}
