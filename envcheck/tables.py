"""Typed, lazy access to rules/compat. A question about what is newer than the table is answered None."""
