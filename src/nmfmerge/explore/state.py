"""The state that the page shows, as immutable data that every change replaces."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from nmfmerge.editor import MissingComponents
from nmfmerge.explore.job import Job
from nmfmerge.explore.names import Carried
from nmfmerge.losses.merging import MergeTree
from nmfmerge.results.assessment import Assessment
from nmfmerge.results.consensus import Consensus
from nmfmerge.results.factorization import Factorization
from nmfmerge.results.rank_path import RankPath

OPENED = 0  # the start that came with a folder; other starts are known by their rank


@dataclass(frozen=True)
class Note:
    """The message on the page about the last event."""

    text: str
    kind: str = "done"  # or "error"
    replacing: str = ""  # a folder with another fit, if the page asks whether to replace it


@dataclass(frozen=True, eq=False)
class Extras:
    """Values that take a moment to compute for a solution, and are added later."""

    pairs: np.ndarray  # change of the fitting error, in percentage points, if two are merged
    tree: MergeTree  # merges down to one component
    missing: MissingComponents | None  # the feature that would be recovered next
    values: np.ndarray  # generalized singular values of the next few


@dataclass(frozen=True, eq=False)
class PageState:
    """All that the page shows at one moment.

    Attributes
    ----------
    start : int
        Rank of the rank path that the solution began with; 0 is the fit that was opened.
    result : Factorization or None
        The solution; None until there is one.
    names, held, share, order
        Of its components: names as shown, whether they are held, share in percent, and their
        order by share.
    carried : dict
        Names that come from other ranks, by component.
    edits, can_undo, can_redo
        Edits since the start, in words.
    selected : int
        The component that is shown large.
    pair : tuple of int or None
        The two components whose merge is looked at.
    extras : Extras or None
        None while they are being computed.
    consensus : Consensus or None
        The consensus that was opened: how many fits agree at each rank.
    group : str
        What cells are grouped by; empty where there are no groups.
    """

    start: int = OPENED
    result: Factorization | None = None
    names: tuple[str, ...] = ()
    carried: Mapping[int, Carried] = field(default_factory=dict)
    held: tuple[bool, ...] = ()
    share: np.ndarray | None = None
    order: tuple[int, ...] = ()
    edits: tuple[str, ...] = ()
    can_undo: bool = False
    can_redo: bool = False
    selected: int = 0
    pair: tuple[int, int] | None = None
    extras: Extras | None = None
    note: Note | None = None
    job: Job | None = None
    path: RankPath | None = None
    assessment: Assessment | None = None
    consensus: Consensus | None = None
    group: str = ""
