"""The report in the few bytes that Kubernetes keeps of a container's end: /dev/termination-log.

https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/ allows 4096 bytes a container.
"""

from __future__ import annotations

from collections.abc import Sequence

from envcheck.facts.printable import one_line
from envcheck.render.styled import padded
from envcheck.render.text import PageOptions, finding_text
from envcheck.render.wording import setting_lines, verdict_line
from envcheck.report.report import Report, host_line

LIMIT_BYTES = 4096


def render(report: Report, *, fix_suggest: bool = False) -> str:
    """As text: machine, findings in order, what the user's settings keep quiet, verdict. Findings that do not fit whole are counted."""
    blocks = [finding_text(one, report, PageOptions(width=120), fix_suggest) for one in report.findings]
    kept = len(blocks)
    while kept and len(_text(report, blocks, kept).encode("utf-8")) > LIMIT_BYTES:
        kept -= 1
    return _text(report, blocks, kept)


def _text(report: Report, blocks: Sequence[str], kept: int) -> str:
    left, say = len(blocks) - kept, report.language.say
    rows = (("target", say(report.target)), ("host", say(host_line(report.snapshot))))
    head = f"{report.name} {report.version}\n" + "".join(f"{padded(say(label), 8)}{one_line(told, 300)}\n" for label, told in rows)
    more = [say(f"{left} more finding{'' if left == 1 else 's'} did not fit into {LIMIT_BYTES} bytes") + "\n"] if left else []
    more += [f"{one_line(line, 300)}\n" for line in setting_lines(report)]
    return "\n".join([head, *blocks[:kept], *more, f"{one_line(verdict_line(report), 1000)}\n"])
