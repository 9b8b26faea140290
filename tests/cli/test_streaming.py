import csv
import json
import os
import socket
import time

import numpy as np
import pytest
import scipy.sparse as sp

from nmfmerge import nmf_merge
from nmfmerge.cli import fit as fit_command
from nmfmerge.cli import report, streaming
from nmfmerge.cli.common import pages
from nmfmerge.io import memory
from nmfmerge.matrices.base import TooLittleMemory
from nmfmerge.storage import folder

da = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")
zarr = pytest.importorskip("zarr")


@pytest.fixture
def store(tmp_path, X):
    """The small data as a Zarr store, in several chunks."""
    return save_zarr(tmp_path / "run.zarr", np.tile(X, (5, 1)))


def save_zarr(path, X, chunks=(10, 20)):
    array = zarr.open(path, mode="w", shape=X.shape, chunks=chunks, dtype=X.dtype)
    array[...] = X
    return path


@pytest.fixture(autouse=True)
def _small_bands(monkeypatch):
    """Cut the small data into several bands."""
    monkeypatch.setattr("nmfmerge.io.bands.LARGEST", 10_000)


@pytest.fixture
def fitted(monkeypatch):
    """What the fit was given: X, and the memory that is set."""
    given = []

    def fit(X, n_components, **settings):
        given.append((X, dask.config.get("nmfmerge.memory", None)))
        return nmf_merge(X, n_components, **settings)

    monkeypatch.setattr(fit_command, "nmf_merge", fit)
    return given


def test_data_are_streamed_and_all_of_the_fit_is_written(command, store, tmp_path, fitted):
    out = tmp_path / "out"
    code, text, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", out)
    assert (code, err) == (0, "")
    X, memory_set = fitted[0]
    assert isinstance(X, da.Array)
    assert X.numblocks == (10, 1)
    assert dask.utils.parse_bytes(memory_set) == 2 * 10**9
    assert dask.config.get("nmfmerge.memory", None) is None
    fit = folder.read(out)
    expected = nmf_merge(X, 4)
    np.testing.assert_array_equal(fit.result.H, expected.H)
    np.testing.assert_array_equal(fit.result.W, expected.W.compute())
    assert f"fitting error {expected.fitting_error:.6g} %" in text
    in_memory = nmf_merge(X.compute(), 4)
    assert fit.result.fitting_error == pytest.approx(in_memory.fitting_error, rel=1e-6)
    assert fit.about.command.endswith("-r 4 --memory 2GB")
    assert fit.about.streamed == {"memory": "2GB", "scheduler": None}
    assert not {"standard", "around", "data_sha256"} & set(fit.about.as_record())
    assert "in bands of 20 rows" in fit.about.notes[0]
    assert not (tmp_path / "out.unfinished").exists()


def test_a_large_factor_is_never_whole_in_memory(command, store, tmp_path, monkeypatch):
    out = tmp_path / "out"
    monkeypatch.setattr(streaming, "LARGEST", 100)
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", out)
    assert (code, err) == (0, "")
    names = {file.name for file in out.iterdir()}
    assert {"W.npy", "H.csv", "components.csv"} <= names
    assert not {"W.csv", "H.npy"} & names
    with np.load(out / "factors.npz") as factors:
        assert set(factors.files) == {"H", "generalized_singular_values"}
    fit = folder.read(out)
    assert isinstance(fit.result.W, np.memmap)
    np.testing.assert_array_equal(np.load(out / "W.npy"), fit.result.W)
    assert fit.result.W.shape == (200, 4)
    with open(out / "components.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert sum(float(line["share (%)"]) for line in lines) == pytest.approx(100)
    assert [int(line["peak row"]) for line in lines] == fit.result.W.argmax(axis=0).tolist()
    assert not (tmp_path / "out.unfinished").exists()
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", out, "--force")
    assert (code, err) == (0, "")


def test_a_wide_matrix_is_streamed_by_columns(command, tmp_path, X, fitted, monkeypatch):
    store = save_zarr(tmp_path / "wide.zarr", np.tile(X, (1, 9)), (20, 10))
    monkeypatch.setattr(streaming, "LARGEST", 100)
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    assert fitted[0][0].numblocks[0] == 1
    assert fitted[0][0].numblocks[1] > 3
    fit = folder.read(tmp_path / "out")
    np.testing.assert_array_equal(fit.result.H, np.load(tmp_path / "out/H.npy"))
    assert isinstance(fit.result.H, np.memmap)
    assert (tmp_path / "out/W.csv").exists()
    assert not (tmp_path / "out/H.csv").exists()


@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("large", [False, True])
def test_the_report_says_what_is_left_out(command, store, tmp_path, monkeypatch, large):
    out = tmp_path / "out"
    if large:
        monkeypatch.setattr(streaming, "LARGEST", 100)
        monkeypatch.setattr("nmfmerge.storage.thinned._MOST", 50)
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", out)
    assert (code, err) == (0, "")
    page = (out / "report.html").read_text()
    assert "the data were streamed, and are never in memory as a whole." in page
    assert "200 × 60" in page
    assert ("this page shows one in 4 of them" in page) == large
    assert page.count('class="component"') == 4
    assert (out / "figures/components.png").exists()
    assert not (out / "figures/reconstruction.png").exists()
    monkeypatch.setattr(report, "pages", pages)
    code, text, _ = command("report", out)
    assert code == 0
    assert "(without the residual: the data were streamed)" in text
    again = (out / "report.html").read_text()
    assert again.replace(f"<p>Data: {store}.</p>", "") == page.replace(f"<p>Data: {store}.</p>", "")


def test_cells_keep_their_names_and_x_is_left_out(command, tmp_path):
    anndata = pytest.importorskip("anndata")
    X = sp.random(90, 20, 0.4, "csr", random_state=0)
    adata = anndata.AnnData(X)
    adata.obs_names = [f"cell {i}" for i in range(90)]
    adata.write_h5ad(tmp_path / "cells.h5ad")
    out = tmp_path / "out"
    code, text, err = command("fit", tmp_path / "cells.h5ad", "-r", 3, "--memory", "2GB", "-o", out)
    assert (code, err) == (0, "")
    written = anndata.read_h5ad(out / "result.h5ad")
    assert written.X is None
    assert text.endswith(
        "left out, as the data were streamed: the residual, the spread over starts, the comparison "
        "with other fits, X in result.h5ad\n"
    )
    assert written.obs_names[2] == "cell 2"
    assert written.obsm["X_nmf"].shape == (90, 3)
    assert (out / "top-cells.csv").exists()


def test_exports_of_a_large_factor_are_left_out_with_a_word(command, tmp_path, monkeypatch):
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(sp.random(90, 20, 0.4, "csr", random_state=0)).write_h5ad(tmp_path / "c.h5ad")
    monkeypatch.setattr(streaming, "LARGEST", 100)
    code, text, _ = command(
        "fit", tmp_path / "c.h5ad", "-r", 3, "--memory", "2GB", "-o", tmp_path / "out"
    )
    assert code == 0
    assert "not written: result.h5ad" in text
    assert "too large for memory" in text
    assert not (tmp_path / "out/result.h5ad").exists()
    assert not (tmp_path / "out/top-cells.csv").exists()
    assert (tmp_path / "out/top-genes.csv").exists()


def test_a_finished_fit_is_not_done_again_and_other_data_are_refused(command, store, tmp_path):
    words = ["fit", store, "-r", 4, "--memory", "2GB", "-o", tmp_path / "out"]
    command(*words)
    code, text, _ = command(*words, "--resume")
    assert code == 0
    assert "is finished: nothing to resume" in text
    code, text, _ = command(*[w if w != "2GB" else "3GB" for w in words], "--resume")
    assert code == 0
    array = zarr.open(store, mode="r+")
    array[...] = array[...] + 1
    code, _, err = command(*words, "--resume")
    assert code == 1
    assert "is another fit (other data or weights, or read otherwise)" in err


@pytest.mark.parametrize("band", [10_000, 30_000])
def test_after_ctrl_c_while_w_is_computed_the_fit_goes_on(
    command, store, tmp_path, monkeypatch, band
):
    """More memory makes for other bands."""
    words = ["fit", store, "-r", 4, "--memory", "2GB", "-o", tmp_path / "out"]

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fit_command, "computed", interrupted)
        code, _, err = command(*words)
    assert code == 130
    assert "continue with the same command and --resume" in err
    assert (tmp_path / "out.unfinished/checkpoint.npz").exists()
    monkeypatch.setattr("nmfmerge.io.bands.LARGEST", band)
    code, _, err = command(*[w if w != "2GB" else "3GB" for w in words], "--resume")
    assert (code, err) == (0, "")
    assert folder.is_fit(tmp_path / "out")
    assert not (tmp_path / "out.unfinished").exists()


def test_a_fit_of_streamed_data_is_merged_when_they_are_named(command, store, tmp_path):
    out = tmp_path / "out"
    command("fit", store, "-r", 4, "--memory", "2GB", "-o", out)
    code, _, err = command("merge", out, "-r", 3, "-o", tmp_path / "3")
    assert code == 1
    assert "were streamed: name their file with --data, and it is read whole" in err
    code, _, _ = command("merge", out, "-r", 3, "-o", tmp_path / "3", "--data", store)
    assert code == 0
    code, _, err = command("merge", tmp_path / "3", "-r", 2, "-o", tmp_path / "2")
    assert (code, err) == (0, "")  # they have been read whole, and are there
    code, _, err = command("explore", out)
    assert code == 1
    assert "were streamed: open the data file instead, which is read whole" in err


def test_fits_of_the_same_data_are_told_from_others(command, store, tmp_path, X):
    other = save_zarr(tmp_path / "other.zarr", np.tile(X, (5, 1)) + 1)
    fits = {"a": [store, "--memory", "2GB"], "b": [store], "c": [other, "--memory", "2GB"]}
    for name, words in fits.items():
        command("fit", *words, "-r", 4, "--no-report", "-o", tmp_path / name)
    for pair, same in {"ab": True, "ba": True, "ac": False, "bc": False, "aa": True}.items():
        _, text, _ = command("compare", *(tmp_path / name for name in pair), "--json")
        assert json.loads(text)["same_data"] is same, pair
    array = zarr.open(store, mode="r+")
    array[...] = array[...] + 1
    _, text, _ = command("compare", tmp_path / "a", tmp_path / "b")
    assert "careful: whether the two fits are of the same data is not known" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--memory", "2GB", "--drop-zero-rows"], "--drop-zero-rows cannot be used with data"),
        (["--memory", "2GB", "--device", "cuda"], "--device cuda cannot be used with data that"),
        (["--memory", "1kB"], "or allow more with --memory"),
        (["--memory", "2GB", "--max-memory", "1GB"], "--max-memory '1GB' cannot be used with"),
    ],
)
def test_what_cannot_be_done_is_said(command, store, tmp_path, words, message):
    code, _, err = command("fit", store, "-r", 4, *words, "-o", tmp_path / "out")
    assert code == 1
    assert message in err
    assert not (tmp_path / "out").exists()


def test_files_that_cannot_be_streamed_are_refused(command, tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    code, _, err = command("fit", tmp_path / "a.csv", "-r", 1, "--memory", "8GB")
    assert code == 1
    assert "a.csv cannot be streamed: that can be done with Zarr arrays" in err
    code, _, err = command("fit", tmp_path / "nothing.zarr", "-r", 1, "--memory", "8GB")
    assert code == 1
    assert "nothing.zarr was not found" in err


def test_a_size_that_is_none_is_refused(command, store, capsys):
    with pytest.raises(SystemExit):
        command("fit", store, "-r", 4, "--memory", "much")
    assert "argument --memory: 'much' is not a size" in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer_is_named_soon(command, store, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    from nmfmerge.matrices.dask.opening import active_client

    monkeypatch.setattr(streaming, "_TIMEOUT", 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    begin = time.monotonic()
    code, _, err = command("fit", store, "-r", 4, "--scheduler", address, "-o", tmp_path / "out")
    assert code == 1
    assert f"--scheduler {address} does not answer" in err
    assert "check the address, and that `dask scheduler` runs there" in err
    assert active_client() is None
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize("wrong", ["nonsense", "nonsense://x:1", "http://127.0.0.1:8787", "a:b"])
def test_what_is_no_address_is_refused_at_once(command, store, tmp_path, wrong):
    pytest.importorskip("distributed")
    begin = time.monotonic()
    code, _, err = command("fit", store, "-r", 4, "--scheduler", wrong, "-o", tmp_path / "out")
    assert (code, err) == (
        1,
        f"nmfmerge: --scheduler {wrong!r} is not an address: write one such as tcp://host:8786\n",
    )
    assert time.monotonic() - begin < 10  # its client would wait for 20 s


def test_workers_without_nmfmerge_are_said_so(command, store, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("nmfmerge.matrices.dask.cluster._VERSION", "{!r} and '0.0.9'")
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0",
    )  # fmt: skip
    with cluster:
        code, _, err = command(
            "fit", store, "-r", 4, "--scheduler", cluster.scheduler_address, "-o", tmp_path / "out"
        )
    assert code == 1
    assert "run.zarr stopped: the worker at" in err
    assert "has nmfmerge 0.0.9 and this process has" in err
    assert "Traceback" not in err


def test_a_scheduler_is_the_client_of_the_fit(command, store, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed")
    addresses = []

    def fit(X, n_components, **settings):
        addresses.append(distributed.default_client().scheduler.address)
        return nmf_merge(X, n_components, **settings)

    monkeypatch.setattr(fit_command, "nmf_merge", fit)
    cluster = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0",
        memory_limit="2GB",
    )  # fmt: skip
    with cluster:
        address = cluster.scheduler_address
        code, _, err = command(
            "fit", store, "-r", 4, "--scheduler", address, "-o", tmp_path / "out"
        )
        assert (code, err) == (0, "")
        assert addresses == [address]
        clients = distributed.client._global_clients.values()
        assert not [client for client in clients if client.status == "running"]
        cluster.scale(0)
        with distributed.Client(cluster) as client:
            while client.nthreads():
                time.sleep(0.05)
        code, _, err = command("fit", store, "-r", 4, "--scheduler", address, "-o", tmp_path / "2")
        assert code == 1
        assert f"has no workers: start some with `dask worker {address}`" in err
    fit = folder.read(tmp_path / "out")
    assert fit.result.W.shape == (200, 4)
    assert fit.about.streamed["scheduler"] == address


@pytest.fixture
def small_machine(monkeypatch):
    """A machine that is too small for the data."""
    for module in (memory, streaming):
        monkeypatch.setattr(module, "machine_memory", lambda: 60_000)


@pytest.mark.usefixtures("small_machine")
def test_a_file_that_is_too_large_to_be_read_can_be_streamed(command, store, tmp_path, X):
    code, _, err = command("fit", store, "-r", 4, "-o", tmp_path / "out")
    assert code == 1
    assert "needs 96 kB of memory" in err.lower().replace("KB", "kB").replace("kb", "kB")
    assert "or leave it on disk and stream it with --memory 1GB" in err
    with open(tmp_path / "a.csv", "w", newline="") as file:
        csv.writer(file).writerows(np.tile(X, (5, 1)))
    code, _, err = command("fit", tmp_path / "a.csv", "-r", 4, "-o", tmp_path / "out")
    assert code == 1
    assert "stream" not in err


@pytest.mark.usefixtures("small_machine")
def test_info_of_a_file_that_is_too_large(command, store):
    code, text, _ = command("info", store)
    assert code == 0
    assert "shape                [200, 60]" in text
    assert "chunks               [10, 20]" in text
    assert "can be streamed      yes" in text
    assert f"stream it with nmfmerge fit {store} -r 20 --memory 1GB" in text
    facts = json.loads(command("info", store, "--json", "--transpose")[1])
    assert facts["shape"] == [60, 200]
    assert facts["chunks"] == [20, 10]
    assert facts["megabytes"] == pytest.approx(0.096)


def test_without_the_options_nothing_is_lazy(command, store, tmp_path, fitted):
    code, _, _ = command("fit", store, "-r", 4, "-o", tmp_path / "out", "--no-compare")
    assert code == 0
    assert isinstance(fitted[0][0], np.ndarray)
    about = json.loads((tmp_path / "out/fit.json").read_text())
    assert "data_sha256" in about
    assert "streamed" not in about
    assert not os.path.exists(tmp_path / "out/W.npy")


def test_a_chunk_that_cannot_be_read_is_named(command, store, tmp_path, monkeypatch):
    monkeypatch.setattr("nmfmerge.matrices.dask.chunk_reader._PAUSE", 0.0)
    chunk = next(file for file in sorted(store.rglob("*")) if file.parts[-2:] == ("15", "1"))
    chunk.write_bytes(b"damaged")
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", tmp_path / "out")
    assert code == 1
    assert "run.zarr stopped: chunk 7 of X could not be read" in err
    assert "Traceback" not in err
    assert not (tmp_path / "out").exists()


def test_a_chunk_that_cannot_be_read_at_the_end_loses_no_fit(
    command, store, tmp_path, monkeypatch
):  # fmt: skip
    words = ["fit", store, "-r", 4, "--memory", "2GB", "-o", tmp_path / "out"]

    def damaged(*_, **__):
        raise RuntimeError("this chunk is damaged")

    with monkeypatch.context() as patch:
        patch.setattr(fit_command, "computed", damaged)
        code, _, err = command(*words)
    assert code == 1
    assert "could not be read once more after the fit (this chunk is damaged)" in err
    assert "continue with the same command and --resume" in err
    code, _, err = command(*words, "--resume")
    assert (code, err) == (0, "")


def test_a_fit_that_runs_out_of_memory_says_how_to_go_on(command, store, tmp_path, monkeypatch):
    def short(X, n_components, **settings):
        nmf_merge(X, n_components, **settings)
        raise TooLittleMemory("chunk 1 of X has 8 MB and this process has 638 of 700 MB in use")

    monkeypatch.setattr(fit_command, "nmf_merge", short)
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", tmp_path / "out")
    assert code == 1
    assert "continue with the same command, more memory and --resume" in err
    assert "638 of 700 MB in use: give it more memory with --memory" in err


def test_memory_that_is_not_enough_for_the_process_is_said(command, store, tmp_path):
    code, _, err = command("fit", store, "-r", 4, "--memory", "50MB", "-o", tmp_path / "out")
    assert code == 1
    assert "50 MB of memory are too little: this process has" in err
    assert "allow at least" in err
    assert "rechunk" not in err


def test_bad_values_are_found_in_the_first_pass(command, store, tmp_path):
    array = zarr.open(store, mode="r+")
    array[123, 45] = np.inf
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", tmp_path / "out")
    assert code == 1
    assert "X[123, 45] is inf, in chunk 6" in err


def test_streamed_data_may_have_missing_values(command, tmp_path, rng):
    X = rng.random((200, 4)) @ rng.random((4, 40))
    X[rng.random(X.shape) < 0.1] = np.nan
    store, out = save_zarr(tmp_path / "holes.zarr", X), tmp_path / "out"
    code, _, err = command("fit", store, "-r", 4, "--memory", "2GB", "-o", out)
    assert (code, err) == (0, "")
    found = folder.read(out).result
    assert found.fitting_error < 1e-3
    full = found.impute(X)
    np.testing.assert_array_equal(full[~np.isnan(X)], X[~np.isnan(X)])
