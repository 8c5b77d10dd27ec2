"""Rules: what one is, and how its answer becomes a finding."""
