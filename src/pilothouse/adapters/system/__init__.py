"""The machine's own clock and identifiers."""
