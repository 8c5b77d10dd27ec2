"""What a finding wants done, before anyone says how: `planner` alone turns these into commands."""

from __future__ import annotations

from typing import TypeAlias

from envcheck.facts.record import record


@record
class TorchBuild:
    """A torch build that fits this host: `planner` searches it. `version` pins the release, e.g. "==2.9.*"."""

    version: str | None = None


@record
class Install:
    """Requirements of the target environment, with what must be uninstalled first.

    `reinstall` names packages whose files must be written again although their version is right. A name stands twice in `remove` where
    two distributions of it lie in one folder: pip takes one away at a time.
    """

    requirements: tuple[str, ...]
    remove: tuple[str, ...] = ()
    reinstall: bool = False
    note: str = ""
    flags: tuple[str, ...] = ()  # for the installer, as pip and uv both know them


UPGRADE = ("--upgrade",)  # for what is there and too old, where no number says which release is needed


@record
class SetEnv:
    """A variable for the user's shell; value None means unset. `beside` has those that are set together with it, as (name, value)."""

    name: str
    value: str | None
    note: str = ""
    beside: tuple[tuple[str, str], ...] = ()


@record
class Manual:
    """Something a person does: `who` is "user" or "admin"; `commands` are shown as they are, never run.

    They are steps, from the first to the last; with `choose` they are ways to the same end, of which one is enough.
    `afterwards`: no cure, but what keeps the fault from coming back.
    """

    text: str
    who: str = "user"
    commands: tuple[str, ...] = ()
    choose: bool = False
    afterwards: bool = False


Intent: TypeAlias = TorchBuild | Install | SetEnv | Manual
