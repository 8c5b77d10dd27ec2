"""What an installation would download, asked of the installer and of the index; nothing is downloaded for it but metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from envcheck.facts.record import record
from envcheck.host.access import Completed
from envcheck.host.plain_files import beginning
from envcheck.trial.commands import InstallerLine
from envcheck.trial.installer import Installer

ASK_SECONDS = 90.0  # for the answer of an index to one command
HEAD_SECONDS = 5.0
ANSWER_BYTES = 64 << 20  # of what the installer writes: a lock, or what it would install with all descriptions
UNPACKED = 1.8  # bytes on the disk for a byte of a wheel of torch and of what belongs to it: 1.6 to 1.8 where it was measured


@record
class Size:
    """Bytes of the wheels that are needed, as far as the index tells."""

    download_bytes: int = 0
    unknown: int = 0  # files whose size nobody tells
    cached: bool = False  # the installer has all of them already
    refused: Completed | None = None  # the installer cannot resolve a line: its words

    def needs(self, installer: Installer, links: bool) -> tuple[int, int]:
        """Bytes that the throwaway folder and the cache take at most, by what is measured of uv and pip."""
        unpacked = int(self.download_bytes * UNPACKED)
        if installer.tool == "uv":
            return (0 if links else unpacked), (0 if self.cached else unpacked)
        return unpacked + self.download_bytes, self.download_bytes


def ask_size(installer: Installer, lines: Sequence[InstallerLine], python: str, folder: str, seconds: float) -> Size:
    """One dry run a line, in an environment that is still empty."""
    files: dict[str, int | None] = {}
    cached = True
    for number, line in enumerate(one for one in lines if one.installs):
        dry, found = (_of_uv if installer.tool == "uv" else _of_pip)(
            installer, line, python, f"{folder}-{number}", min(seconds, ASK_SECONDS)
        )
        if not dry.ok and not dry.timed_out:
            return Size(refused=dry)
        cached = cached and installer.tool == "uv" and dry.ok and "Would download" not in dry.stdout
        files.update(found)
    known = _with_heads(files)
    return Size(sum(size for size in known.values() if size), sum(size is None for size in known.values()), cached)


def _of_uv(installer: Installer, line: InstallerLine, python: str, name: str, seconds: float) -> tuple[Completed, Mapping[str, int | None]]:
    """The dry run says whether it would do; a lock file of the same requirements holds the sizes."""
    uv = installer.program or "uv"
    dry = installer.run(line.argv(python, uv, ("--dry-run",)), seconds)
    if not dry.ok:
        return dry, {}
    wanted, lock = f"{name}.in", f"{name}.pylock.toml"
    with open(wanted, "w", encoding="utf-8") as file:
        file.write("\n".join(line.requirements) + "\n")
    argv = (
        uv,
        "pip",
        "compile",
        "-q",
        "--python",
        python,
        wanted,
        "--format",
        "pylock.toml",
        "-o",
        os.path.join(os.path.dirname(name), "pylock.toml"),
        *line.sources,
    )
    if not installer.run(argv, seconds).ok:
        return dry, {}
    os.replace(os.path.join(os.path.dirname(name), "pylock.toml"), lock)
    from envcheck.tables.toml import load_toml

    try:
        packages = load_toml(lock, ANSWER_BYTES).get("packages", ())
    except (OSError, ValueError):
        return dry, {}
    return dry, dict(
        _file(wheel)
        for package in packages
        for wheel in (package.get("wheels") or [package.get("archive") or package.get("sdist") or {}])[:1]
    )


def _file(entry: Mapping[str, Any]) -> tuple[str, int | None]:
    where = str(entry.get("url") or entry.get("path") or "")
    size = entry.get("size")
    return where, size if isinstance(size, int) else None


def _of_pip(
    installer: Installer, line: InstallerLine, python: str, name: str, seconds: float
) -> tuple[Completed, Mapping[str, int | None]]:
    report = f"{name}.report.json"
    dry = installer.run(line.argv(python, more=("--dry-run", "--report", report)), seconds)
    if "no such option: --" in dry.stdout:  # pip before 22.2
        return Completed(dry.argv, timed_out=True), {}
    try:
        rows = json.loads(beginning(report, ANSWER_BYTES)).get("install", ())
    except (OSError, ValueError, RecursionError):
        return dry, {}
    return dry, {str(row.get("download_info", {}).get("url", "")): None for row in rows}


def _with_heads(files: Mapping[str, int | None]) -> Mapping[str, int | None]:
    """With the sizes of local files, and with those that the server tells when asked for the head alone."""
    with ThreadPoolExecutor(8) as pool:
        return dict(pool.map(_sized, files.items()))


def _sized(file: tuple[str, int | None]) -> tuple[str, int | None]:
    where, size = file
    if size is not None or not where:
        return where, size
    try:
        return where, _head(where)
    except (OSError, ValueError):  # URLError is an OSError, InvalidURL a ValueError
        return where, None


def _head(where: str) -> int | None:
    import http.client
    import urllib.request
    from urllib.parse import unquote, urlsplit

    if where.startswith("file:"):
        return os.path.getsize(unquote(urlsplit(where).path))
    if not where.startswith(("http://", "https://")):
        return os.path.getsize(where)
    try:
        with urllib.request.urlopen(urllib.request.Request(where, method="HEAD"), timeout=HEAD_SECONDS) as answer:  # noqa: S310 - http(s) only, above
            length = answer.headers.get("Content-Length", "")
    except http.client.HTTPException as error:
        raise OSError(str(error)) from None
    return int(length) if length.isdecimal() else None


def shown(size: int | float) -> str:
    """ "2.9 GB", "180 MB"."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(1, round(size / 1e6))} MB"
