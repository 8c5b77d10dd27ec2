"""Packages built against a torch: what their new versions ask for, against torch-companion and third-party."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence

from difference import AddRow, Difference, Row, row_text
from packaging.version import Version
from registry import File
from wheels import Metadata, Wheel, newest_first, specifier_text, wheel_of

from envcheck.tables.compat import Tables

COMPANIONS = ("torchvision", "torchaudio")
THIRD_PARTY = ("xformers", "vllm", "bitsandbytes", "torch-tensorrt")
_PLATFORM, _PYTHON = "linux-x86_64", "3.12"


def versions(files: Iterable[File]) -> dict[str, Wheel]:
    """Version -> the wheel whose METADATA speaks for it on Linux x86_64, oldest first; final versions that are not withdrawn."""
    of: dict[Version, list[Wheel]] = {}
    for file in files:
        wheel = wheel_of(file)
        if wheel and wheel.platform in (_PLATFORM, "any") and not wheel.version.is_prerelease and not file.yanked:
            of.setdefault(wheel.version, []).append(wheel)
    return {str(version): newest_first(of[version])[0] for version in sorted(of)}


def unknown(tables: Tables, package: str, found: Mapping[str, Wheel]) -> dict[str, Wheel]:
    """Versions that are newer than the newest one in the table. What it leaves out below was left out on purpose."""
    if package in COMPANIONS:
        rows = tables.rows("torch-companion", "companion")
        known = [row[package] for row in rows if package in row]
        known += [row["to"] for row in tables.rows("torch-companion", "requires") if row["package"] == package]
    else:
        known = [one for row in tables.rows("third-party", "pin") if row["package"] == package for one in _listed(row)]
    newest = max(map(Version, known))
    return {version: wheel for version, wheel in found.items() if Version(version) > newest}


def _listed(row: Row) -> Sequence[str]:
    return [*row.get("versions", "").split(), *([row["last"]] if "last" in row else [])]


def companion_rows(package: str, new: Mapping[str, Metadata], releases: Sequence[str], coming: Sequence[str]) -> Iterator[Difference]:
    """A version that does not ask for exactly one torch gets a row of its own; one that does is in the row of that torch.

    `releases` are those that the tables know, `coming` those whose rows are about to be written.
    """
    for version, metadata in new.items():
        asked = torch_of(metadata)
        exact = asked.removeprefix("==") if asked else ""
        if exact in coming:
            continue
        if exact in releases:
            yield Difference("torch-companion", f"{package} {version}", "", f"asks for torch{asked}; is it the pair of that release now?")
            continue
        row = {"package": package, "from": version, "to": version, "torch": asked or "", "source": "metadata"}
        near = {"package": package}
        yield Difference("torch-companion", f"{package} {version}", "", row_text(row), AddRow("requires", row, near))


def pair_row(torch: str, facts: Mapping[str, Mapping[str, Metadata]], triton: str | None, below: str | None) -> Row:
    """The row of a new torch: of each companion the version that asks for exactly it, else the newest that admits it."""
    row: dict[str, object] = {"torch": torch}
    for package, of in facts.items():
        exact = [version for version, metadata in of.items() if torch_of(metadata) == f"=={torch}"]
        admits = [version for version, metadata in of.items() if _admits(metadata, torch)]
        if exact or admits:
            row[package] = (exact or admits)[-1]
    row |= {"triton": triton} if triton else {}
    row |= {"triton_python_below": below} if below else {}
    return row | {"source": "metadata"}


def torch_of(metadata: Metadata) -> str | None:
    """What it asks of torch: "==2.11.0", "" for any, None where it does not ask."""
    asked = metadata.asked(_PLATFORM, _PYTHON).get("torch")
    return None if asked is None else specifier_text(asked.specifier)


def _admits(metadata: Metadata, torch: str) -> bool:
    asked = metadata.asked(_PLATFORM, _PYTHON).get("torch")
    return asked is None or asked.specifier.contains(torch, prereleases=True)


def first_days(files: Iterable[File]) -> dict[str, datetime.date]:
    """Version -> the day of its first wheel."""
    days: dict[str, datetime.date] = {}
    for file in files:
        wheel = wheel_of(file)
        if wheel and file.uploaded:
            version = str(wheel.version)
            days[version] = min(days.get(version, file.uploaded), file.uploaded)
    return days


def third_party_rows(package: str, new: Mapping[str, Metadata], days: Mapping[str, datetime.date]) -> Iterator[Difference]:
    """One row for each run of versions that ask for the same."""
    runs: list[tuple[dict[str, object], list[str]]] = []
    for version, metadata in new.items():
        said = _said(metadata)
        if runs and runs[-1][0] == said:
            runs[-1][1].append(version)
        else:
            runs.append((said, [version]))
    for said, run in runs:
        row = {"package": package, "versions": " ".join(run), **said}
        row |= {"date": days[run[0]].isoformat()} if run[0] in days else {}
        row |= {"source": "metadata"}
        yield Difference("third-party", f"{package} {' '.join(run)}", "", row_text(row), AddRow("pin", row, {"package": package}))


def _said(metadata: Metadata) -> dict[str, object]:
    """torch, python, and what else is bound to a torch: torchvision, torchaudio, tensorrt with its name."""
    asked = metadata.asked(_PLATFORM, _PYTHON)
    said: dict[str, object] = {}
    if (torch := torch_of(metadata)) is not None:
        said["torch"] = torch
    if metadata.requires_python:
        said["python"] = metadata.requires_python
    said |= {name: specifier_text(asked[name].specifier) for name in COMPANIONS if name in asked}
    runtime = next((one for name, one in asked.items() if name in ("tensorrt", "tensorrt-cu12", "tensorrt-cu13")), None)
    if runtime is not None:
        said["tensorrt"] = f"{runtime.name}{specifier_text(runtime.specifier)}"
    return said
