"""Whole example machines of rules/bases: the ground that rule examples change one fact of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envcheck.facts.codec import decode_snapshot, edit, encode
from envcheck.facts.record import replace
from envcheck.facts.snapshot import PackagesFacts, Snapshot, SymptomsFacts, TextEvidence, TorchFacts
from envcheck.read.clean import clean
from envcheck.read.gists import told_faults, unless_known
from envcheck.read.identify import read_text
from envcheck.symptoms.scan import Scanner, SymptomTable
from envcheck.tables.folders import Folder
from envcheck.tables.toml import load_toml


def base(folder: Folder, name: str) -> Snapshot:
    """The machine rules/bases/<name>.toml."""
    return decode_snapshot(load_toml(os.path.join(folder, "bases", f"{name}.toml")))


def example_snapshot(folder: Folder, example: Mapping[str, Any]) -> Snapshot:
    """The snapshot of one `[[example]]`: its base with its `set` applied in order, and what its `log`, `stated` and failed import show."""
    snapshot = base(folder, example["base"])
    for path, value in example.get("set", {}).items():
        snapshot = edit(snapshot, path, value)
    if not any(path.startswith("packages") for path in example.get("set", {})):
        snapshot = _as_installed(snapshot)
    failure = snapshot.torch.import_failure if isinstance(snapshot.torch, TorchFacts) else None
    if failure is None and "log" not in example and "stated" not in example:
        return snapshot
    log = example.get("log", {})
    texts = {"log": log} if isinstance(log, str) else log
    if failure:
        texts = {"import torch": f"{failure.type}: {failure.text}\n{failure.stderr}", **texts}
    for text in texts.values():
        snapshot = _started(snapshot, text)
    return replace(snapshot, symptoms=_shown(_messages(os.fspath(folder)), texts, example.get("stated", "")))


def _as_installed(snapshot: Snapshot) -> Snapshot:
    """With torch in the version that it states in the list of packages too, where the base had another one: commands are planned by it."""
    torch, packages = snapshot.torch, snapshot.packages
    if not (isinstance(torch, TorchFacts) and isinstance(packages, PackagesFacts) and torch.version):
        return snapshot
    rows = [replace(one, version=torch.version) if one.name == "torch" and one.version else one for one in packages.distributions]
    return replace(snapshot, packages=replace(packages, distributions=tuple(rows)))


_OF_A_LOG = ("launcher.commands", "launcher.init_method", "launcher.start_method", "container.kubernetes", "container.command")


def _started(snapshot: Snapshot, text: str) -> Snapshot:
    """With what the text says was started; of the machine itself an example speaks in `set`."""
    for fact in (fact for found in read_text(clean(text)) for fact in found.facts if fact.path in _OF_A_LOG):
        snapshot = edit(snapshot, fact.path, encode(fact.value))
    return snapshot


@lru_cache(maxsize=1)
def _messages(folder: str) -> SymptomTable:
    return SymptomTable((folder,))


def _shown(table: SymptomTable, texts: Mapping[str, str], stated: str) -> SymptomsFacts:
    """What `diagnose` makes of texts by their source, and of a person's observations."""
    scanner = Scanner(table)
    signs: list[TextEvidence] = []
    told: list[TextEvidence] = []
    for source, text in texts.items():
        text = clean(text)
        scanner.scan(text, source)
        told += told_faults(text, source)
        signs += [replace(sign, source=source) for found in read_text(text) for sign in found.signs]
    scanner.scan(clean(stated), "facts", stated=True)
    known = (*scanner.finish().matches, *signs)
    return SymptomsFacts((*known, *unless_known(told, known)))
