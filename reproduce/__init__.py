"""The experiments of the NMF-Merge paper, and a fair comparison of our own."""
