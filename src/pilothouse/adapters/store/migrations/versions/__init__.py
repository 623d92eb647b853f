"""One module per revision, in the order of their numbers. A revision that was released is never edited."""
