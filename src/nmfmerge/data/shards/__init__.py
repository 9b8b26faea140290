"""Factors in shards: X lies in chunks of rows, and each shard has a run of them.

A shard holds its chunks of X, or reads them as it goes, and its part of every long factor. A
message brings recipes for new parts, and questions; all of them are dealt with in one pass over the
chunks. What comes back is small: sums over the chunks. This code runs in threads of this process or
on the workers of a cluster alike.
"""
