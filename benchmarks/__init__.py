"""Benchmarks of nmfmerge: ``python -m benchmarks`` lists them."""
