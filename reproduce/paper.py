"""The tables of the paper (Guo & Holy, NMF-Merge), as data."""

SOLVERS = {"hals": "HALS", "gcd": "GCD", "alspgrad": "ALSPGrad", "mu": "MU"}
INITS = {
    "random": "random",
    "nndsvd": "NNDSVD",
    "nndsvda": "NNDSVDa",
    "nndsvdar": "NNDSVDar",
}
STAGES = ("initial", "recover", "overcomplete", "merge", "final")

_COLUMNS = ("LCMS1", "LCMS2", "MHLL", "P&F No.1", "CBCL", "ORL")

# Table II, fitting error in percent, standard NMF / NMF-Merge; of random starts the mean and the
# standard deviation over 200 starts.
_TABLE_2 = """
hals random      3.97±0.01/3.97±0.00 4.06±0.08/3.97±0.04 3.08±0.00/3.08±0.00 2.91±0.11/2.85±0.00 0.65±0.00/0.65±0.00 3.02±0.00/3.02±0.00
hals nndsvd      3.97/3.97 4.05/3.98 3.08/3.08 2.85/2.85 0.65/0.65 3.02/3.02
hals nndsvda     3.97/3.97 4.07/3.98 3.08/3.08 2.85/2.85 0.65/0.65 3.02/3.02
hals nndsvdar    3.97/3.97 4.05/3.98 3.08/3.08 2.85/2.85 0.65/0.66 3.02/3.02
gcd random       3.97±0.01/3.97±0.00 4.03±0.07/3.97±0.03 3.08±0.00/3.08±0.00 2.90±0.11/2.85±0.00 0.65±0.00/0.65±0.00 3.02±0.00/3.02±0.00
gcd nndsvd       3.98/3.97 3.99/3.98 3.08/3.08 2.85/2.85 0.65/0.65 3.02/3.02
gcd nndsvda      3.97/3.97 4.00/3.94 3.08/3.08 2.85/2.85 0.65/0.65 3.03/3.03
gcd nndsvdar     3.98/3.97 3.99/3.98 3.08/3.08 2.85/2.85 0.65/0.65 3.02/3.02
alspgrad random  3.97±0.01/3.97±0.00 4.07±0.06/3.97±0.04 3.08±0.00/3.08±0.00 2.92±0.12/2.85±0.00 0.65±0.00/0.65±0.00 3.02±0.00/3.02±0.00
alspgrad nndsvd  3.97/3.97 3.99/3.98 3.08/3.08 2.85/2.85 0.65/0.65 3.02/3.03
alspgrad nndsvda 3.97/3.97 4.19/3.94 3.08/3.08 2.85/2.85 0.65/0.66 3.02/3.02
alspgrad nndsvdar 3.97/3.97 3.99/3.98 3.08/3.08 2.85/2.85 0.65/0.65 3.02/3.03
mu random        4.00±0.02/3.99±0.01 4.18±0.08/4.05±0.03 3.12±0.06/3.10±0.03 2.92±0.13/2.88±0.03 0.74±0.01/0.72±0.00 3.09±0.01/3.08±0.01
mu nndsvd        5.09/4.86 5.89/4.99 3.24/3.20 4.50/3.89 1.66/1.46 4.05/3.90
mu nndsvda       4.01/4.00 4.43/4.16 3.09/3.09 2.85/2.85 0.79/0.75 3.10/3.09
mu nndsvdar      4.01/4.00 4.08/4.07 3.09/3.09 2.85/2.85 0.77/0.74 3.12/3.10
"""

# Table III, seconds of each stage, ε₁ = ε₂ = 1e-2, mean and standard deviation over 200 starts.
_TABLE_3 = """
LCMS1    0.0360±0.0103 0.0022±0.0005 0.0267±0.0090 0.0004±0.0000 0.9036±0.3380
LCMS2    0.0683±0.0249 0.0027±0.0004 0.0526±0.0249 0.0005±0.0000 0.4490±0.1051
MHLL     0.0018±0.0007 0.0002±0.0000 0.0014±0.0002 0.0000±0.0000 0.0038±0.0018
P&F_No.1 0.0250±0.0113 0.0017±0.0003 0.0239±0.0079 0.0003±0.0000 0.3105±0.0717
CBCL     0.5428±0.0902 0.0256±0.0128 0.4312±0.0636 0.0062±0.0004 44.7117±16.9786
ORL      0.7844±0.0627 0.0268±0.0084 0.4289±0.0592 0.0077±0.0028 38.4424±15.3281
"""


def _value(text):
    """A mean and its standard deviation, 0 where the start is deterministic."""
    mean, _, spread = text.partition("±")
    return float(mean), float(spread or 0)


def _rows(table):
    return (line.split() for line in table.strip().splitlines())


# (solver, init, data) → ((mean, spread) of standard NMF, the same of NMF-Merge)
TABLE_2 = {
    (solver, init, column): tuple(_value(part) for part in cell.split("/"))
    for solver, init, *cells in _rows(_TABLE_2)
    for column, cell in zip(_COLUMNS, cells, strict=True)
}

# (data, stage) → (mean, spread)
TABLE_3 = {
    (data.replace("_", " "), stage): _value(cell)
    for data, *cells in _rows(_TABLE_3)
    for stage, cell in zip(STAGES, cells, strict=True)
}
