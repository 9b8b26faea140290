"""How many components? A path through all ranks, and quick fits to compare a result with."""
