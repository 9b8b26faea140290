"""An explorer: the opened folder, the session that is looked at, and the server of its page."""

import os
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.datasets.base import Axis, Dataset
from nmfmerge.explore.autosave import Autosave
from nmfmerge.explore.job import Worker
from nmfmerge.explore.place import Place
from nmfmerge.explore.session import Session
from nmfmerge.explore.state import OPENED, Note
from nmfmerge.io import read
from nmfmerge.io.weights import read_weights
from nmfmerge.results.about import About
from nmfmerge.results.factorization import Factorization
from nmfmerge.storage import folder
from nmfmerge.storage.folder import FolderError
from nmfmerge.storage.provenance import (
    data_again,
    digest,
    weights_again,
    weights_record,
    why_absent,
)

_SILENT = 7.0  # seconds after which a tab counts as closed


def open_path(
    path: Path, weights: Path | None = None, missing: str = "nan", **reading: Any
) -> Session:
    """Open a data file, or a folder that `fit` or the explorer has written.

    Parameters
    ----------
    path : Path
        The file or folder.
    weights : Path, optional
        A file with the weights of the entries of a data file; a fit has its own.
    missing : {"nan", "zeros"}
        Which entries of a data file are missing; see `nmf`.
    **reading
        Options of the format of a data file.
    """
    place = Place(path.resolve().parent)
    restored = folder.restore(path)
    fit = folder.find(path)
    if fit is not None:
        for name, value in (("weights", weights), ("missing", missing)):
            if value not in (None, "nan"):
                raise ArgumentError(
                    name, f"is for data, and {path} is a fit, which knows its own",
                    value=str(value), fix="leave it out",
                )  # fmt: skip
        data = data_again(fit)
        if data is None:
            put_back = "" if fit.about.streamed is not None else "put the file back, or "
            raise FolderError(
                f"the data of {path} ({fit.about.file}) {why_absent(fit)}: {put_back}open "
                "the data file instead, which is read whole"
            )
        start, ranks, about = fit.result, fit.path, fit.about
        consensus, known = fit.consensus, weights_again(fit, data)
        hashed = f"{about.data_sha256} {digest(path / 'factors.npz')}"
    else:
        data = read(path, **reading)
        start, ranks, consensus, sha256 = None, None, None, digest(path)
        known = None if weights is None else read_weights(weights, data, path, reading)
        settings = {} if missing == "nan" else {"missing": missing}
        about = About(
            title=path.name, file=str(path.resolve()), reading=reading, data_sha256=sha256,
            weights=weights_record(weights), settings=settings,
        )  # fmt: skip
        hashed = f"{sha256} {sorted(reading.items())}"
        if weights is not None or settings:
            hashed += f" {about.weights} {settings}"
    autosave, trouble = None, ""
    try:
        autosave = Autosave(place.folder / f"{path.resolve().name}.edits", hashed)
    except OSError as error:
        trouble = f"Edits are not kept as you make them: {error.strerror or error}"
    name = path.resolve().name
    try:
        session = Session(
            data, start, path=ranks, consensus=consensus, about=about, weights=known,
            place=place, autosave=autosave, title=name,
        )  # fmt: skip
    except BaseException:
        if autosave is not None:
            autosave.close()
        raise
    if trouble:
        session.show_note(Note(trouble, "error"))
    if restored:
        said = session.state.note or Note("")
        session.show_note(Note(f"{restored}. {said.text}".strip(), said.kind))
    return session


def open_matrix(X: Any, weights: Any = None, missing: str = "nan") -> Session:
    """A session on a matrix or a `Dataset` in memory; its edits are kept there."""
    given: Any = {"weights": weights, "about": About(settings={"missing": missing})}
    if isinstance(X, Dataset):
        return Session(X, **given)
    shape = getattr(X, "shape", None)
    if shape is None:
        X = np.asarray(X)
        shape = X.shape
    if len(shape) != 2:
        raise ValueError(f"X has {len(shape)} dimensions: expected a matrix, a Dataset or a path")
    rows, columns = (
        Axis(name, np.arange(length)) for name, length in zip(("row", "column"), shape, strict=True)
    )
    return Session(Dataset("matrix", X, None, rows, columns), **given)


class Explorer:
    """A running explorer, as `explore` returns it.

    Attributes
    ----------
    address : str
        Where the page is; open it on this machine.
    session : Session
        What is looked at.
    """

    def __init__(self, session: Session, port: int = 0, n_max: int = 20) -> None:
        from nmfmerge.explore.page import Page
        from nmfmerge.explore.server import Server

        self.session = session
        self.tabs = 0  # that are open now
        self.drawings: dict[tuple[Factorization, str], tuple[list[str], list[str]]] = {}
        self._heard: dict[object, float] = {}
        self._listeners: list[Callable[[], None]] = []
        self._lock = RLock()
        self._opener = Worker()
        self._server = Server(lambda document: Page(self, document).build(), port)
        self._forget = session.subscribe(self.notify)
        self.address = self._server.address
        self._server.start()
        self._n_max = n_max
        self._begin()

    def _begin(self) -> None:
        """Fit all ranks of data, unless a fit was opened."""
        if self.session.state.path is None and OPENED not in self.session.starts:
            self.session.find_path(min(self._n_max, *self.session.data.X.shape))

    @property
    def result(self) -> Factorization | None:
        """The current solution; None until there is one."""
        return self.session.result

    def open(self, name: str) -> None:
        """Open another file of the opened folder; if that fails, nothing changes."""

        def work() -> None:
            try:
                path = self.session.place.file(name)
                if not os.path.exists(path):
                    raise FileNotFoundError(f"{name} no longer exists")
                session = open_path(path)
            except Exception as error:  # whatever a wrong file makes its reader raise
                text = " ".join(str(error).split())
                self.session.show_note(Note(f"{name} was not opened: {text}", "error"))
                return
            self._change(session)

        self.session.show_note(Note(f"Opening {name} …"))
        self._opener.submit(work)

    def _change(self, session: Session) -> None:
        with self._lock:
            before, self.session = self.session, session
            self._forget()
            self._forget = session.subscribe(self.notify)
        before.close()
        self.drawings.clear()
        self.notify()
        self._begin()

    def on_beat(self, tab: object) -> None:
        """Take note that a tab is open; those that are silent for a while are closed."""
        self._heard[tab] = monotonic()
        self._heard = {t: s for t, s in self._heard.items() if monotonic() - s < _SILENT}
        if self.tabs != len(self._heard):
            self.tabs = len(self._heard)
            self.notify()

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after every change, from any thread; returns a way to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def notify(self) -> None:
        """Call all listeners."""
        for listener in list(self._listeners):
            listener()

    def wait(self) -> None:
        """Wait until the server is stopped."""
        self._server.wait()

    def stop(self) -> None:
        """Stop the server; edits stay where they were kept."""
        self.session.close()
        self._opener.close()
        self._server.stop()

    def _repr_html_(self) -> str:
        return (
            f'<p>nmfmerge explorer: <a href="{self.address}" target="_blank">open it in a tab of '
            f'its own</a></p><iframe src="{self.address}" width="100%" height="820" '
            'style="border: 1px solid #8885; border-radius: 8px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Explorer of {self.session.data.name!r} at {self.address}"
