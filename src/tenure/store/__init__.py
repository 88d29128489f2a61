"""The only SQL: one noun a module, functions on a transaction. Nouns do not know each other; all may use events."""
