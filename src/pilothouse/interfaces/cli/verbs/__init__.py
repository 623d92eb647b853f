"""One module per verb, imported when the verb is used; the table is in ``main``."""
