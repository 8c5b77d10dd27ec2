"""This machine, asked through one door: files, processes, system calls."""
