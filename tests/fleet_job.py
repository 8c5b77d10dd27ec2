"""One process of a job, for tests: `python fleet_job.py '{"deadline": 5, …}'` with the launcher's variables in the environment.

Its host's facts are a healthy machine's, with changes by dotted path in `FACTS`: what is tested is how processes meet and part.
`SLEEP` is how long they take, so that a process can be frozen or killed in the middle of it; `BOOT` is a file with the id of its boot.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from envcheck.commands.bases import base
from envcheck.facts.codec import edit, encode
from envcheck.fleet import conduct, presence, stages, store_client
from envcheck.fleet.options import FleetOptions
from envcheck.fleet.seat import take_seat
from envcheck.tables.folders import rules_folder


def main(asked: dict[str, Any]) -> int:
    seat = take_seat(os.environ, os.environ["HOST"], os.getpid())
    assert seat is not None
    stages.SLACK_SECONDS = conduct.SLACK_SECONDS = asked.pop("slack", 10.0)
    if "hurry" in asked:  # of what comes on top of the deadline where rank 0 stands still
        conduct.JUDGE_SECONDS = store_client.QUESTION_SECONDS = asked.pop("hurry")
    stages.facts_here = _facts
    presence.BOOT_ID = os.environ.get("BOOT", presence.BOOT_ID)
    documents = tuple((form, path) for form, path in asked.pop("documents", ()))
    return conduct.conduct(seat, FleetOptions(documents=documents, select=("fleet",), **{"stages": ("facts",), **asked}))


def _facts(_options: FleetOptions) -> dict[str, Any]:
    time.sleep(float(os.environ.get("SLEEP", "0")))
    machine = base(rules_folder(), "cpu")
    for path, value in json.loads(os.environ.get("FACTS", "{}")).items():
        machine = edit(machine, path, value)
    return dict(encode(machine))


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
