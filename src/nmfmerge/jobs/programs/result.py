"""The gene programmes of cells: usages, spectra and top genes, at one of the ranks fitted."""

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nmfmerge.arguments.errors import ArgumentError
from nmfmerge.arguments.values import Text, Whole
from nmfmerge.io.errors import library
from nmfmerge.jobs.programs.adata import add_to
from nmfmerge.jobs.programs.prepare import Prepared
from nmfmerge.jobs.programs.spectra import parts, score_spectra, tpm_spectra, usages_of
from nmfmerge.results.consensus import Consensus, RankConsensus

_NEARLY_BEST = 0.05  # below the best mean silhouette
MOST_OF_ONE_SAMPLE = 0.9  # share of a programme's use from which it counts as that of one sample


@dataclass(frozen=True, eq=False, repr=False)
class Programs:
    """Gene programmes that many fits agree on, in the terms of cNMF.

    The tables are pandas data frames; programmes are numbered from 1, by their share of the fit.

    Attributes
    ----------
    consensus : Consensus
        The fits at all ranks.
    n_components : int
        The rank these programmes are of; ``at`` gives those of another one.
    density_threshold : float
        Of the outlier filter.
    usages : DataFrame (cells, programmes)
        The part of each programme in each cell; they add up to one.
    spectra : DataFrame (programmes, variable genes)
        The medians of the fits; each adds up to one.
    gene_spectra_tpm : DataFrame (programmes, genes)
        Expression of all genes in a cell of this programme alone, in transcripts per million.
    gene_spectra_score : DataFrame (programmes, genes)
        How much higher a gene is, in standard deviations, the more a cell uses the programme.
    prepared : Prepared
        The counts, the genes that were fitted, and the samples.
    """

    consensus: Consensus
    n_components: int
    density_threshold: float
    usages: Any
    spectra: Any
    gene_spectra_tpm: Any
    gene_spectra_score: Any
    prepared: Prepared = field(repr=False)

    @property
    def rank_consensus(self) -> RankConsensus:
        """The consensus that the programmes are made of."""
        return self.consensus.at(self.n_components)

    def at(self, rank: int) -> "Programs":
        """The programmes at another of the ranks that were fitted."""
        return programs_at(self.consensus, rank, self.density_threshold, self.prepared)

    def top_genes(self, n: int = 100) -> Any:
        """The genes with the highest scores: one column for each programme, the highest first."""
        n = Whole(1).check("n", n)
        pandas = _pandas()
        scores = self.gene_spectra_score
        genes = scores.columns.to_numpy()
        order = np.argsort(-scores.to_numpy(), axis=1, kind="stable")[:, :n]
        return pandas.DataFrame(genes[order].T, columns=scores.index)

    def sample_usages(self) -> Any:
        """Mean usage of each programme in each sample; None where the cells have no samples."""
        samples = self.prepared.samples
        return None if samples is None else self.usages.groupby(samples).mean()

    def of_one_sample(self) -> dict[int, str]:
        """Programmes that one sample uses nearly alone, with that sample.

        Its mean usage there is at least 90 % of the sum of those in all samples.
        """
        table = self.sample_usages()
        if table is None or len(table) < 2:
            return {}
        shares = table / table.sum().where(lambda sums: sums > 0, 1)
        return {k: str(shares[k].idxmax()) for k in shares if shares[k].max() >= MOST_OF_ONE_SAMPLE}

    def add_to(self, adata: Any) -> Any:
        """Add the programmes to the AnnData that they were found in.

        ``obsm["usages"]``, ``obs["usage_1"]``, … and ``obs["program"]``, the one that a cell uses
        most; ``varm["gene_spectra_score"]``, ``varm["gene_spectra_tpm"]`` and
        ``var["program_genes"]``, the genes that were fitted; ``uns["programs"]`` with top genes,
        samples and stability. Cells and genes that were left out have zeros.

        Parameters
        ----------
        adata : AnnData
            The one that was analysed; it is changed.

        Returns
        -------
        adata : AnnData
            The same; one of its .raw, if that was fitted and has other genes.
        """
        return add_to(self, adata)

    def write(self, folder: str | Path, name: str = "programs", coordinates: Any = None) -> None:
        """Write the tables and figures under the names that cNMF gives them.

        Parameters
        ----------
        folder : str or path
            A folder; it is made where it is missing.
        name : str
            What the names of the files begin with.
        coordinates : array (cells, 2), optional
            A UMAP, of all cells of the AnnData, to draw the usages on.
        """
        from nmfmerge.jobs.programs.files import write  # here, as it imports matplotlib

        check_name(name)
        write(self, Path(folder), name, coordinates)

    def __repr__(self) -> str:
        m, n = self.usages.shape
        head = f"{n} gene programmes in {m:,} cells"
        top = self.top_genes(8)
        mean = self.usages.mean()
        silhouettes = self.rank_consensus.silhouettes
        lines = [
            f"  {k:>3} {100 * mean[k]:>8.1f} %   {stable:>10.2f}   {', '.join(top[k])}"
            for k, stable in zip(self.usages, silhouettes, strict=True)
        ]
        return "\n".join([head, "      mean usage   silhouette   top genes", *lines])


def rank_to_take(consensus: Consensus) -> int:
    """The assessed rank, or where none stands out the highest of those that are most stable."""
    assessment = consensus.assess()
    if assessment.low is not None and assessment.rank in consensus:
        return int(assessment.rank or 0)
    stability = {rank: consensus[rank].silhouette for rank in consensus}
    enough = max(stability.values()) - _NEARLY_BEST
    return max(rank for rank, silhouette in stability.items() if silhouette >= enough)


def programs_at(
    consensus: Consensus, rank: int, density_threshold: float, prepared: Prepared
) -> Programs:
    """The programmes at one rank, from the consensus of fits to their usages and spectra."""
    pandas = _pandas()
    found, counts = consensus.at(rank), prepared.counts
    sums = found.H.sum(axis=1)
    spectra = found.H / np.where(sums > 0, sums, 1)[:, None]
    in_counts = found.W * sums
    tpm, loss = prepared.tpm, prepared.beta_loss
    of_tpm = tpm_spectra(tpm, parts(in_counts), loss)
    usages = parts(usages_of(tpm[:, prepared.genes], of_tpm[:, prepared.genes], loss))
    numbers = pandas.RangeIndex(1, rank + 1)

    def frame(values: np.ndarray, genes: np.ndarray) -> Any:
        return pandas.DataFrame(values, index=numbers, columns=genes)

    made = Programs(
        consensus=consensus,
        n_components=rank,
        density_threshold=density_threshold,
        usages=pandas.DataFrame(usages, index=counts.cells, columns=numbers),
        spectra=frame(spectra, counts.genes[prepared.genes]),
        gene_spectra_tpm=frame(of_tpm, counts.genes),
        gene_spectra_score=frame(score_spectra(tpm, in_counts), counts.genes),
        prepared=prepared,
    )
    for k, sample in made.of_one_sample().items():
        warnings.warn(
            f"nearly all use of programme {k} is in sample {sample!r}: a batch effect, or a kind "
            "of cell that no other sample has",
            stacklevel=3,
        )
    return made


def check_name(name: str) -> None:
    """Check that files can have names that begin so."""
    if Path(Text().check("name", name)).name != name:
        raise ArgumentError(
            "name", "is not the beginning of a file name", value=name,
            fix="leave out folders and separators",
        )  # fmt: skip


def _pandas() -> Any:
    return library("pandas", "gene programmes", "pandas", "single-cell", doing="writing")
