"""`explore` in Python, and the command line before there is a page."""

import http.client
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="the extra [explore] is not installed")

from nmfmerge import datasets, explore
from nmfmerge.cli import main
from nmfmerge.results.about import About
from nmfmerge.results.rank_path import RankPath
from nmfmerge.storage.folder import Fit, write


@pytest.fixture
def explorer(data):
    explorer = explore(data, n_max=4)
    explorer.session.wait()
    yield explorer
    explorer.stop()


def status(address):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request("GET", parts.path)
    answer = connection.getresponse().status
    connection.close()
    return answer


def test_a_matrix_is_fitted_at_once_up_to_a_rank(explorer):
    assert explorer.result.n_components <= 4
    assert explorer.session.state.path.ranks.tolist() == [1, 2, 3, 4]


def test_the_result_is_the_solution_as_it_is_now(explorer):
    explorer.session.go(4)
    explorer.session.edit("rename", 0, "glucose")
    explorer.session.wait()
    assert explorer.result.names[0] == "glucose"


def test_a_notebook_shows_the_page(explorer):
    html = explorer._repr_html_()
    assert f'<iframe src="{explorer.address}"' in html
    assert explorer.address in repr(explorer)
    assert status(explorer.address) == 200


def test_a_page_has_all_parts_and_nothing_from_elsewhere(explorer):
    parts = urlsplit(explorer.address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)
    connection.request("GET", parts.path)
    html = connection.getresponse().read().decode()
    connection.close()
    assert 'id="cards"' in html
    assert "no-referrer" in html
    for word in ("https://", "cdn."):
        assert word not in html.split("<body")[0].replace("http://www.w3.org", "")


def test_a_stopped_explorer_answers_no_more(data):
    explorer = explore(data, n_max=2)
    explorer.stop()
    with pytest.raises(ConnectionError):
        status(explorer.address)


def test_options_of_files_are_refused_for_a_matrix(data):
    with pytest.raises(TypeError, match="mz_bin is for files"):
        explore(data.X, mz_bin=0.5)


@pytest.mark.parametrize("n_max", [0, -1, 2.5])
def test_a_highest_rank_that_is_none_is_refused(data, n_max):
    with pytest.raises((ValueError, TypeError), match="n_max"):
        explore(data, n_max=n_max)


def test_negative_data_are_refused_before_there_is_a_page():
    with pytest.raises(ValueError, match="Negative values"):
        explore(np.array([[1.0, -1.0], [1.0, 2.0]]))


def test_a_port_that_is_taken_is_told_as_an_option(file, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code = main(["explore", str(file), "--port", str(port), "--no-browser"])
    assert code == 1
    assert capsys.readouterr().err.startswith(f"nmfmerge: --port {port} cannot be opened")


WITHOUT_BOKEH = """
import sys
sys.modules["bokeh"] = None  # as if it were not installed
from nmfmerge.cli import main
sys.exit(main(["explore", sys.argv[1], "--no-browser"]))
"""


def test_without_bokeh_the_command_says_how_to_install_it(file):
    out = subprocess.run(
        [sys.executable, "-c", WITHOUT_BOKEH, str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert out.returncode == 1
    assert out.stderr == (
        'nmfmerge: opening the page needs Bokeh: pip install "nmfmerge[explore]"\n'
    )
    assert out.stdout == ""


def test_a_file_that_is_not_there_is_told(tmp_path, capsys):
    assert main(["explore", str(tmp_path / "none.csv"), "--no-browser"]) == 1
    assert "none.csv was not found" in capsys.readouterr().err


def test_a_folder_of_a_path_opens_with_all_its_ranks(tmp_path, data, start, file):
    from nmfmerge import rank_path
    from nmfmerge.explore.explorer import open_path
    from nmfmerge.storage.provenance import digest

    path = rank_path(data.X, 4)
    assert isinstance(path, RankPath)
    about = About(file=str(file), data_sha256=digest(file))
    write(tmp_path / "all.nmf", Fit(path[3], datasets_like(data), about, path))
    session = open_path(tmp_path / "all.nmf")
    assert session.state.path.ranks.tolist() == [1, 2, 3, 4]
    session.go(2)
    assert session.state.result.n_components == 2
    session.close()


def datasets_like(data):
    """The data as they are read from a file without axes."""
    rows, columns = (
        datasets.Axis(name, np.arange(n))
        for name, n in zip(("row", "column"), data.X.shape, strict=True)
    )
    return datasets.Dataset("run", data.X, None, rows, columns)


@pytest.mark.parametrize("of_file", [False, True])
def test_weights_are_a_file_where_the_data_are(of_file, tmp_path):
    X = np.ones((4, 3))
    np.save(tmp_path / "X.npy", X)
    given = (tmp_path / "X.npy", X) if of_file else (X, tmp_path / "X.npy")
    with pytest.raises(TypeError, match=r"weights is .*a file, .*expected a file of weights for a"):
        explore(given[0], weights=given[1])
