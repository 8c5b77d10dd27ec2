"""`envcheck schema`: the JSON Schema of the reports."""

from __future__ import annotations

import argparse
from importlib.resources import files

from envcheck.commands.output import put


def execute(args: argparse.Namespace) -> int:
    """Prints the schema of `envcheck --json` and `envcheck diagnose --json`, version 1."""
    put((files("envcheck") / "schema" / "report-v1.json").read_text("utf-8"))
    return 0
