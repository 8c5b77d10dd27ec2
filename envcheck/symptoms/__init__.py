"""Known messages of programs, found in text."""
