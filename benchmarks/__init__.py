"""What must be fast, each figure beside its floor: the physical or do-it-yourself cost of the same work."""
