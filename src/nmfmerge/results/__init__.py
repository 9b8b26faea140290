"""The results of a fit: the factorization, its stages and starts, the path through all ranks.

All are frozen, and have a readable `print`; they draw themselves with ``plot()`` and in notebooks.
"""
