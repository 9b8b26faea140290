"""Mutational signatures: counts of mutations to signatures and activities, and known ones."""
