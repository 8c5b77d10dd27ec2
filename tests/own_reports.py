"""Each rule's first finding as a whole report, and the documents that hold it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from envcheck.commands.bases import example_snapshot
from envcheck.render import FORMATS, render
from envcheck.render.json_v1 import render_record
from envcheck.report.report import Report
from envcheck.report.session import report_on, rule_session
from envcheck.tables.folders import rules_folder

BY = rule_session()
RULES = tuple(rule for rule in BY.texts.ids if BY.texts.family(rule) != "fleet")  # a job's report has formats of its own
UNRECORDED = ("backend-unavailable", "expectation-failed")  # a record holds facts; what its user demanded is none


@cache
def report_of(rule: str) -> Report:
    """The report on the machine of the rule's first example that no other rule explains."""
    hits = (one for one in BY.texts.read(rule).examples if one["expect"] == "hit")
    reports = (report_on(example_snapshot(Path(rules_folder()), one), BY, live_requested=False) for one in hits)
    return next(one for one in reports if any(row.finding.rule == rule for row in one.findings))


def documents(rule: str) -> Mapping[str, str]:
    """Format → the report in it; "record" has its facts alone."""
    report = report_of(rule)
    made = {name: render(report, name) for name in FORMATS}
    return made if rule in UNRECORDED else {**made, "record": render_record(report.snapshot, "envcheck", report.version)}


def archive(files: Mapping[str, bytes], *, links: Mapping[str, str] | None = None, form: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar.gz as --evidence writes it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=form) as tar:
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for name, data in files.items():
            one = tarfile.TarInfo(name)
            one.size = len(data)
            tar.addfile(one, io.BytesIO(data))
    return out.getvalue()


def extension(kind: bytes, data: bytes) -> bytes:
    """What a tar has before an entry that needs more than its block."""
    head = tarfile.TarInfo("x")
    head.type, head.size = kind, len(data)
    return head.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)
