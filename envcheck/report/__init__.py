"""Findings, fixes and doubts become the finished result of a run."""
