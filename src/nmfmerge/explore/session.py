"""A session: data, rank path, edits, selection, work in progress.

All tabs share one session. Every change replaces its `PageState` as a whole, so that no tab draws
half a change, and notifies the subscribers. Long work runs in one thread.
"""

import threading
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from nmfmerge.datasets.base import Dataset
from nmfmerge.editor import Editor
from nmfmerge.explore.autosave import Autosave
from nmfmerge.explore.cells import groupings
from nmfmerge.explore.extras import extras_of
from nmfmerge.explore.job import Job, Worker
from nmfmerge.explore.names import carried_names, given_names, same_component, with_names
from nmfmerge.explore.place import Place
from nmfmerge.explore.reduce import Overview
from nmfmerge.explore.saving import Folders
from nmfmerge.explore.state import OPENED, Note, PageState
from nmfmerge.explore.words import NEXT, change, edit_in_words, name_of
from nmfmerge.explore.writing import fit_of, write_fit
from nmfmerge.inputs.check import check_observed, check_X_on_host
from nmfmerge.ranks.path import RankPath, rank_path
from nmfmerge.results.about import About
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.storage.folder import is_fit

_REST = 0.2  # seconds at one solution after which its pairs and missing features are computed


class Session:
    """One data set that the user views and edits.

    Parameters
    ----------
    data : Dataset
        The data, with X.
    start : Factorization, optional
        The first solution.
    path : RankPath, optional
        Solutions of all ranks, if known.
    consensus : Consensus, optional
        What many fits agree on, if known: the solutions at its ranks.
    about : About, optional
        How the data were read and, where there is one, how the start was made; see `folder.Fit`.
    weights : array or sparse matrix, optional
        Weights of the entries of X; see `nmf`. Which are missing, ``about`` says in its settings.
    place : Place, optional
        Where solutions are saved.
    autosave : Autosave, optional
        Where every edit is saved at once.
    title : str, optional
        The name of the opened file, for the page; by default the name of the data.
    """

    def __init__(
        self,
        data: Dataset,
        start: Factorization | None = None,
        *,
        path: RankPath | None = None,
        consensus: Consensus | None = None,
        about: About | None = None,
        weights: Any = None,
        place: Place | None = None,
        autosave: Autosave | None = None,
        title: str = "",
    ) -> None:
        self.data = data
        self.title = title or data.name
        self.about = about or About()
        self.place = place or Place(Path())
        self._weights = weights
        self.matrix = check_X_on_host(data.X, "the explorer", weights, self.about.missing)
        check_observed(self.matrix)
        self.overview = Overview.of(self.matrix, data.X)
        self.groupings = groupings(data)
        self.state = PageState(group=next(iter(self.groupings), ""))
        self.starts: dict[int, Factorization] = {} if start is None else {OPENED: start}
        self.editors: dict[int, Editor] = {}
        self.folders = Folders(self.place, self.title, data.name)
        self._restored = ""  # what the page says when the first work of a session is done
        self._words: dict[int, list[str]] = {}  # of the edits of each start, also those undone
        self._looked_at: Factorization | None = None  # the last one whose extras were requested
        self._autosave = autosave
        self._worker = Worker()
        self._lock = threading.RLock()
        self._listeners: list[Callable[[], None]] = []
        note = None if autosave is None else self._restore(autosave)
        if path is not None:
            self._take(path)
        if consensus is not None:
            self._take_consensus(consensus)
        here = {*self.starts, *self.editors}
        if here:
            last = None if autosave is None else autosave.last
            self._show(last if last in self.editors else min(here), note)
        elif note is not None:
            self.show_note(note)

    @property
    def kept_in(self) -> Path | None:
        """The folder of the edits, if they are kept."""
        return None if self._autosave is None else self._autosave.folder

    # ---- what the page hears

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call ``listener`` after every change, from any thread; returns a way to end that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def wait(self, timeout: float = 60) -> None:
        """Wait until no work is left."""
        end = monotonic() + timeout
        while True:
            self._worker.wait(max(end - monotonic(), 0.01))
            state = self.state
            if state.job is None and (state.result is None or state.result is self._looked_at):
                return

    def close(self) -> None:
        """Stop what runs, and let others open the data."""
        if self.state.job is not None:
            self.state.job.cancel()
        self._worker.close()
        if self._autosave is not None:
            self._autosave.close()

    def show_note(self, note: Note) -> None:
        """Show a sentence on the page."""
        self._update(note=note)

    def _update(self, **changes: Any) -> None:
        with self._lock:
            self.state = replace(self.state, **changes)
        self._notify()

    def _notify(self) -> None:
        for listener in list(self._listeners):
            listener()

    # ---- looking

    def select(self, i: int) -> None:
        """Show a component large."""
        if self.state.result is not None and 0 <= i < self.state.result.n_components:
            self._update(selected=i)

    def step(self, by: int) -> None:
        """Show the next or the previous component, in the order of their shares."""
        order = self.state.order
        if order:
            self.select(order[(order.index(self.state.selected) + by) % len(order)])

    def choose_pair(self, i: int, j: int) -> None:
        """Look at what merging two components would do; the same pair again puts it away."""
        pair = (min(i, j), max(i, j))
        n = len(self.state.names)
        if i != j and pair[0] >= 0 and pair[1] < n:
            self._update(pair=None if pair == self.state.pair else pair)

    def choose_cheapest_pair(self) -> None:
        """Look at the merge that would raise the fitting error least."""
        extras = self.state.extras
        if extras is not None and np.isfinite(extras.pairs).any():
            i, j = np.unravel_index(int(np.nanargmin(extras.pairs)), extras.pairs.shape)
            self._update(pair=(min(int(i), int(j)), max(int(i), int(j))))

    def group_by(self, group: str) -> None:
        """Show the mean usage of cells in other groups."""
        if group in self.groupings:
            self._update(group=group)

    def go(self, rank: int) -> None:
        """Show the solution of a rank, with the edits that were made to it."""
        if self._busy():
            return
        if rank in {*self.starts, *self.editors} and rank != self.state.start:
            self._show(rank)

    def _show(self, start: int, note: Note | None = None) -> None:
        """Make a start, or what edits have made of it, the solution that is shown."""
        with self._lock:
            editor = self.editors.get(start)
            if editor is None:
                self._put(start, self.starts[start], note=note)
            else:
                self._put_edited(start, editor, note)

    def _put_edited(self, start: int, editor: Editor, note: Note | None) -> None:
        result = editor.result()
        self._put(
            start, result,
            held=tuple(editor.held),
            edits=self._in_words(start, editor),
            can_undo=editor.can_undo,
            can_redo=editor.can_redo,
            note=note,
        )  # fmt: skip

    def _in_words(self, start: int, editor: Editor) -> tuple[str, ...]:
        """The edits of a start; those of an earlier session have numbers instead of names."""
        known = self._words.setdefault(start, [])
        known += [edit_in_words(edit.name, edit.arguments) for edit in editor.edits[len(known) :]]
        return tuple(known[: len(editor.edits)])

    def _put(self, start: int, result: Factorization, **known: Any) -> None:
        share = result.shares()
        order = tuple(np.argsort(-share, kind="stable").tolist())
        r = result.n_components
        carried = carried_names(result, self._named_solutions(start, r))
        names = with_names(result, carried)
        selected = (
            same_component(self.state.result, self.state.selected, result)
            if start == self.state.start
            else None
        )
        fresh = {"held": (False,) * r, "edits": (), "can_undo": False, "can_redo": False}
        self._update(
            start=start, result=result, share=share, order=order, extras=None, pair=None,
            names=tuple(name_of(names, i) for i in range(r)), carried=carried,
            selected=selected if selected is not None else (order[0] if order else 0),
            **(fresh | known),
        )  # fmt: skip
        self._worker.submit(lambda: self._find_extras(result))

    def _named_solutions(self, start: int, rank: int) -> list[tuple[int, Factorization]]:
        """The current solutions of the other starts, those of the nearest rank first."""
        starts = sorted({*self.starts, *self.editors} - {start})
        found = [(other, self._solution(other)) for other in starts]
        return sorted(found, key=lambda one: abs(one[1].n_components - rank))

    def _solution(self, start: int) -> Factorization:
        """A start, or what edits have made of it."""
        return self.editors[start].result() if start in self.editors else self.starts[start]

    @property
    def result(self) -> Factorization | None:
        """The solution that is shown, with the names that it is shown with."""
        state = self.state
        if state.result is None or not state.carried:
            return state.result
        return replace(state.result, names=tuple(with_names(state.result, state.carried)))

    def _find_extras(self, result: Factorization) -> None:
        """Compute what comes after a solution, once the user rests at it."""
        end = monotonic() + _REST
        while monotonic() < end and self.state.result is result and self.state.job is None:
            sleep(0.01)
        if self.state.result is not result:
            return
        if self.state.job is not None:  # the user goes first
            self._worker.submit(lambda: self._find_extras(result))
            return
        try:
            editor = self.editors.get(self.state.start) or Editor(self.matrix, result)
            extras = extras_of(editor, result)
        except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
            self._update(note=Note(f"Pairs and missing features are not known: {error}", "error"))
            self._looked_at = result
            return
        with self._lock:
            if self.state.result is result:
                self._update(extras=extras)
        self._looked_at = result

    # ---- editing

    def edit(self, name: str, *arguments: Any) -> None:
        """Do an edit of `Editor` by its name; errors become a note."""
        if self.state.result is None:
            self._update(note=Note("There is no solution yet to edit.", "error"))
            return
        before, start = self.state.result, self.state.start
        doing, title = (
            edit_in_words(name, arguments, self.state.names, doing=d) for d in (True, False)
        )

        def work(job: Job) -> Note:
            editor = self._editor()
            options = {"callback": job} if name == "polish" else {}
            getattr(editor, name)(*arguments, **options)
            if name not in ("undo", "redo"):
                n = len(editor.edits)
                self._words[start] = [*self._in_words(start, editor)[: n - 1], title]
            stopped = " (stopped early)" if job.cancelled else ""
            text = f"{title}{stopped}: {change(before, editor.result())}"
            advice = f". {NEXT[name]}" if name in NEXT else ""
            return self._keep(editor, Note(text + advice))

        self._run(doing, work, reshow=True)

    def merge_pair(self) -> None:
        """Merge the two components that are looked at, or else look at the cheapest merge."""
        if self.state.pair is not None:
            self.edit("merge", *self.state.pair)
        elif self.state.extras is None:
            self._worker.submit(self.choose_cheapest_pair)  # after the extras, which are on the way
        else:
            self.choose_cheapest_pair()

    def toggle_hold(self, i: int) -> None:
        """Hold a component, or release it."""
        if 0 <= i < len(self.state.held):
            self.edit("release" if self.state.held[i] else "hold", i)

    def undo(self) -> None:
        """Take the last edit back."""
        if self.state.can_undo:
            self.edit("undo")

    def redo(self) -> None:
        """Do the edit again that was taken back."""
        if self.state.can_redo:
            self.edit("redo")

    def _editor(self) -> Editor:
        start = self.state.start
        if start not in self.editors:
            result = self.starts[start]
            names = with_names(result, self.state.carried) if self.state.carried else None
            self.editors[start] = Editor(self.matrix, result, names=names)
        return self.editors[start]

    def _keep(self, editor: Editor, note: Note) -> Note:
        """Keep the edits on disk; where that fails the edit stands, and the note says so."""
        if self._autosave is None:
            return note
        try:
            self._autosave.keep(self.state.start, editor, self._words[self.state.start])
        except OSError as error:
            reason = error.strerror or error
            text = f"{note.text.rstrip('.')}. Edits could not be kept on disk: {reason}"
            return Note(text, "error")
        return note

    def _restore(self, autosave: Autosave) -> Note | None:
        """Take up the edits of an earlier session."""
        self.editors.update(autosave.found(self.matrix))
        self._words.update(autosave.words)
        if autosave.moved_to is not None:
            moved = f"The data have changed: edits of the earlier ones are in {autosave.moved_to}"
            return Note(moved, "error")
        if autosave.damaged:
            return Note("; ".join(autosave.damaged), "error")
        if self.editors:
            restored = f"Edits of an earlier session are here again, from {autosave.folder.name}."
            if autosave.unsure:
                restored += " It does not say of which data they are: check that they still fit."
            self._restored = f"{restored} "
            return Note(restored)
        return None

    # ---- all ranks

    def find_path(self, n_max: int, holdout: float = 0.0) -> None:
        """Fit all ranks up to ``n_max``, and measure their errors at held-out entries."""
        most = min(self.data.X.shape)
        if not 1 <= n_max <= most:
            self._update(note=Note(f"The highest rank must be from 1 to {most}.", "error"))
            return

        restored, self._restored = self._restored, ""

        def work(job: Job) -> Note:
            loss = self.state.result.loss if self.state.result else "frobenius"
            path = rank_path(self.matrix, n_max, beta_loss=loss, holdout=holdout, callback=job)
            ranks = list(path)
            self._take(path)
            if self.state.result is None:
                self._show(path.first_choice)
            stopped = "Stopped. " if job.cancelled else ""
            return Note(
                f"{restored}{stopped}Solutions for ranks {ranks[0]} to {ranks[-1]} are here."
            )

        self._run(f"Fitting ranks 1 to {n_max}", work)

    def _take(self, path: RankPath) -> None:
        with self._lock:
            self.starts |= path
            self._update(path=path, assessment=path.assess())

    def _take_consensus(self, consensus: Consensus) -> None:
        with self._lock:
            solutions = {rank: consensus.at(rank).factorization for rank in consensus}
            self.starts = solutions | self.starts
            self._update(consensus=consensus, assessment=consensus.assess())

    # ---- files

    def save(self, name: str | None = None, overwrite: bool = False) -> None:
        """Save the solution as a folder like that of `nmfmerge fit`, with its edits as a script.

        Without a name it is saved to the same folder as before, or to a new one. A folder is
        replaced only by a continuation of its own edits. The page asks before it replaces another
        fit, unless ``overwrite`` is True.
        """
        if self.state.result is None:
            self._update(note=Note("There is no solution yet to save.", "error"))
            return

        def work(job: Job) -> Note:
            editor = self._editor_with_names()
            start = self.state.start
            chosen = self.folders.free(editor, start) if name is None else name
            path = self.place.file(chosen)
            if not overwrite and is_fit(path) and not self.folders.is_ours(chosen, editor, start):
                question = f"{chosen} holds another fit: replace it, or choose another name."
                return Note(question, "error", replacing=chosen)
            fit = fit_of(editor, start, self.data, self.about, self.state.path, self._weights)
            not_made = write_fit(path, fit, editor, job)
            self.folders.saved(path.name, start)
            return Note(f"Saved as {path.name} in {path.parent}.{not_made}")

        self._run(f"Saving {'the solution' if name is None else name}", work)

    def keep(self) -> None:
        """Do not replace the fit that the page asked about."""
        if self.state.note is not None and self.state.note.replacing:
            self.show_note(Note(f"{self.state.note.replacing} was not replaced."))

    def _editor_with_names(self) -> Editor:
        """The editor with the names that are shown; those of other ranks as edits of a copy."""
        editor = self._editor()
        named = given_names(editor.result())
        missing = {i: one.name for i, one in self.state.carried.items() if i not in named}
        if missing:
            editor = copy(editor)  # edits replace its lists, so the original does not change
            for i, name in missing.items():
                editor.rename(i, name)
        return editor

    # ---- work in the background

    def _busy(self) -> bool:
        job = self.state.job
        if job is not None:
            self._update(note=Note(f"{job.title}: wait until it is done, or cancel it.", "error"))
        return job is not None

    def cancel(self) -> None:
        """Stop the work in progress; what it has reached is kept."""
        if self.state.job is not None:
            self.state.job.cancel()

    def _run(self, title: str, work: Callable[[Job], Note], *, reshow: bool = False) -> None:
        """Run work in the background, one at a time, and show its outcome."""
        if self._busy():
            return
        job = Job(title, self._notify)
        self._update(job=job)

        def run() -> None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    note = work(job)
            except Exception as error:  # whatever it is, the page must show it and stay usable
                note = Note(f"{title} failed: {' '.join(str(error).split())}", "error")
            with self._lock:
                if reshow and self.state.start in self.editors:
                    self._show(self.state.start, note)
                self._update(job=None, note=note)

        self._worker.submit(run)
