"""`programs`: from counts of cells to gene programmes, by the consensus of many fits."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Any

from nmfmerge import settings
from nmfmerge.consensus.start import consensus
from nmfmerge.jobs.programs.prepare import prepare
from nmfmerge.jobs.programs.result import Programs, programs_at, rank_to_take


def programs(
    adata: Any,
    ranks: int | str | Iterable[int] = tuple(range(5, 14)),
    *,
    n_fits: int = 100,
    merge: bool = False,
    density_threshold: float = 0.5,
    n_top_genes: int = 2000,
    layer: str | None = None,
    mask_var: str | None = None,
    sample_key: str | None = None,
    beta_loss: str = "frobenius",
    tol: float = 1e-3,
    max_iter: int = 10_000,
    max_time: float | None = None,
    random_state: Any = None,
    callback: Callable[..., object] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    n_jobs: int | None = None,
    device: Any = None,
    verbose: int = 0,
) -> Programs:
    """Find gene programmes in single cells by consensus NMF, as cNMF does (Kotliar et al. 2019).

    The counts of the most variable genes, each at variance 1, are fitted ``n_fits`` times at each
    rank. Components that most fits share become programmes: the medians of their spectra, the
    usage in each cell, and from these the spectra of all genes.

    Parameters
    ----------
    adata : AnnData or Dataset
        Cells × genes, with counts; not changed.
    ranks : int, several int, or str
        Numbers of programmes to try: ``range(5, 14)``, ``"5-13"`` or ``9``.
    n_fits : int
        Number of fits at each rank, at least 2.
    merge : bool
        Make each fit by NMF-Merge instead of plain NMF.
    density_threshold : float
        A component whose mean distance to its nearest neighbours is larger than this is an
        outlier; 2 keeps all.
    n_top_genes : int
        Number of variable genes to fit: those that vary most for their mean, as cNMF ranks them.
    layer : str, optional
        Layer of the counts, if they are not in X; "raw" for .raw.
    mask_var : str, optional
        Column of ``adata.var`` that marks the genes to fit instead, such as "highly_variable".
    sample_key : str, optional
        Column of ``adata.obs`` with the sample or batch of each cell, for `sample_usages`.
    beta_loss : {"frobenius", "kullback-leibler"}
        What is minimised; under Kullback–Leibler genes are not scaled.
    tol : float
        Tolerance of each fit: no component moves by more than this, relatively. At 1e-3 the errors
        of fits of 2,700 blood cells are those at 1e-4 to five digits.
    max_iter : int
        Maximum number of iterations of each stage of a fit.
    max_time : float, optional
        Maximum time in seconds of all fits; the programmes are then of those that were finished.
    random_state : int, Generator, RandomState or None
        Seed of the starts. None is a fixed seed: the same call gives the same answer.
    callback : callable, optional
        Called after each fit, as in `consensus`; a true return value stops the fits.
    checkpoint : path, optional
        File for the finished fits, from which a run can continue.
    n_jobs : int, optional
        Most threads of the fits; None and -1 are as many as the machine allows.
    device : str or torch.device, optional
        Device of the fits, such as "cuda"; needs PyTorch.
    verbose : int
        1 shows a progress bar in a terminal or a notebook, and elsewhere a line for each rank.

    Returns
    -------
    Programs
        At the rank that the assessment of the consensus finds; where none stands out, at the
        highest rank whose mean silhouette is nearly the best. ``at(rank)`` gives another one.
        ``add_to(adata)`` puts the programmes into the AnnData, and ``write(folder)`` writes the
        files of cNMF.

    Warns
    -----
    UserWarning
        If cells are left out because they have no counts, if the values are not counts but those
        of a layer are, and if one sample has nearly all use of a programme.
    """
    given = settings.checked("programs", locals())
    names = ("layer", "n_top_genes", "mask_var", "sample_key")
    chosen = {name: given.pop(name) for name in names}
    prepared = prepare(adata, **chosen, beta_loss=given["beta_loss"])
    found = consensus(prepared.X, **given)
    return programs_at(found, rank_to_take(found), given["density_threshold"], prepared)
