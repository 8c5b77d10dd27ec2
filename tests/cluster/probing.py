"""What the cluster tests start on a host to try its links: a store of files in a folder that all hosts of the test see."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from envcheck.facts.codec import encode
from envcheck.fleet.links import probe_links
from envcheck.fleet.seat import Seat


class FolderStore:
    """A store whose keys are files. It does what `probe_links` asks of one."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def set(self, key: str, value: Any) -> None:
        path = self._folder / key.replace("/", ":")
        path.with_suffix(".new").write_text(json.dumps(value))
        path.with_suffix(".new").rename(path)

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        paths = {key: self._folder / key.replace("/", ":") for key in keys}
        return {key: json.loads(path.read_text()) for key, path in paths.items() if path.exists()}

    def wait(self, keys: Iterable[str], deadline: float) -> dict[str, Any]:
        wanted = list(keys)
        while len(found := self.get(wanted)) < len(wanted) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found


def main(folder: str, seconds: str, *hosts: str) -> None:
    name = socket.gethostname()
    seat = Seat(name, os.getpid(), hosts.index(name), len(hosts), 0, 1, "none", token="00ff" * 8)
    links = probe_links(seat, hosts, FolderStore(folder), time.monotonic() + float(seconds))  # type: ignore[arg-type]
    print(json.dumps(encode(links)))


if __name__ == "__main__":
    main(*sys.argv[1:])
