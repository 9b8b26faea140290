"""X as a Dask array: it lies in chunks of rows, and each shard has a run of them.

A shard holds its chunks of X, or reads them as it goes, and its part of every long factor. A
request brings expressions for new parts, and reductions; one pass over the chunks evaluates all of
them. What comes back is small: sums over the chunks. This code runs in threads of this process or
on the workers of a cluster alike.
"""
