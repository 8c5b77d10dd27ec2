"""`envcheck schema`: the JSON Schemas of what commands print."""

from __future__ import annotations

import argparse
import json
from typing import Any

from envcheck.commands.output import put

# What is asked for → what prints it. The schemas of all but the report take their parts from the report's.
KINDS = {
    "report": "envcheck --json, diagnose --json, run -o json=FILE",
    "record": "envcheck record",
    "plan": "envcheck plan --json",
    "compare": "envcheck compare --json",
    "fleet": "envcheck fleet --json, -o json=FILE",
}


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """The argument of `envcheck schema`."""
    kinds = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    parser.add_argument("kind", nargs="?", choices=(*KINDS,), default="report", help=f"whose schema (default: report). {kinds}")


def execute(args: argparse.Namespace) -> int:
    """Prints one schema of version 1."""
    put(_file("report") if args.kind == "report" else json.dumps(schema(args.kind), indent=2) + "\n")
    return 0


def schema(kind: str) -> dict[str, Any]:
    """The schema of one kind of document, complete in itself."""
    report: dict[str, Any] = json.loads(_file("report"))
    if kind == "report":
        return report
    head = {"$schema": report["$schema"], "$id": f"urn:envcheck:{kind}:1", "title": f"envcheck {kind}, version 1"}
    own = report["$defs"]["record"] if kind == "record" else json.loads(_file(kind))
    return {**head, **own, "$defs": report["$defs"]}


def _file(kind: str) -> str:
    from importlib.resources import files

    return (files("envcheck") / "schema" / f"{kind}-v1.json").read_text("utf-8")
