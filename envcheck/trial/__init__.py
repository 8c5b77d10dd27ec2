"""A way tried on this machine: its commands run in a throwaway environment, which is then examined as any other. Nothing of it stays."""
