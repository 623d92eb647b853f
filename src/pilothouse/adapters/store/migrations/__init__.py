"""The numbered steps from one revision of the schema to the next, and what runs them."""
