"""What ranks left that failed, kept where the user wants it (`--evidence DIR`): an archive a process, on the host that it ran on."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterable

from envcheck.facts.fleet import FleetTrial
from envcheck.facts.printable import visible
from envcheck.fleet.seat import Seat
from envcheck.host.plain_files import make_folders


def keep_evidence(folder: str, into: str, seat: Seat, trials: Iterable[FleetTrial], executable: str) -> None:
    """The lines, output and stacks of this process's ranks, where one of its trials did not pass. A folder that cannot be written costs
    a line, and nobody the verdict."""
    from envcheck import __version__
    from envcheck.evidence.insights import keep
    from envcheck.facts.snapshot import Snapshot
    from envcheck.host.ownership import planted
    from envcheck.render.json_v1 import render_record

    if not folder or all(one.outcome in ("passed", "skipped") for one in trials):
        return
    host = seat.host.replace(os.sep, "_")
    path = os.path.join(into, f"envcheck-evidence-{time.strftime('%Y%m%dT%H%M%S')}-{host}-rank{seat.rank}-{os.getpid()}.tar.gz")
    try:
        if reason := planted(into):
            raise OSError(errno.EPERM, reason)
        make_folders(into)
        keep(folder, path, Snapshot(), render_record(Snapshot(), "envcheck", __version__), executable)
        said = f"evidence kept in {path}"
    except OSError as error:
        said = f"no evidence could be kept in {path}: {error.strerror}"
    print(visible(f"envcheck: rank {seat.rank} on {seat.host}: {said}"), file=sys.stderr)
