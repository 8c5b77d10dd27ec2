"""Which lines of a fix are for another distribution of Linux than the machine's: by what their remark names, else by their tool."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from envcheck.facts.traits import FAMILIES

_NAMES = {
    "debian": re.compile(r"\b(?:Debian|Ubuntu)\b"),
    "redhat": re.compile(r"\b(?:Fedora|RHEL|Rocky|CentOS|Red Hat)\b"),
    "suse": re.compile(r"\bSUSE\b|\bopenSUSE\b"),
    "arch": re.compile(r"\bArch\b"),
}
_TOOLS = {
    "debian": re.compile(r"(?:^|[;&|] ?|sudo )(?:apt|apt-get|apt-cache|dpkg|ubuntu-drivers|update-initramfs|update-grub)\b"),
    "redhat": re.compile(r"(?:^|[;&|] ?|sudo )(?:dnf|yum|rpm|grubby)\b"),
    "suse": re.compile(r"(?:^|[;&|] ?|sudo )zypper\b"),
    "arch": re.compile(r"(?:^|[;&|] ?|sudo )pacman\b"),
}
_REMARK = "    # "


def own_lines(lines: Sequence[str], traits: Collection[str] | None) -> tuple[str, ...]:
    """The lines that a machine of these traits (facts/traits.py) can use; all of them where its distribution is not known, or where
    none would be left. What a container is told of its host stays: that may have another one."""
    family = next((one for one in FAMILIES if traits and one in traits), None)
    if family is None:
        return tuple(lines)
    mine = tuple(line for line in lines if _is_for(line, family, "container" in (traits or ())))
    return mine or tuple(lines)


def _is_for(line: str, family: str, contained: bool) -> bool:
    told, _, remark = line.partition(_REMARK)
    if (contained and "host" in remark) or "elsewhere" in remark:
        return True
    for which, text in ((_NAMES, remark), (_TOOLS, told)):
        families = {name for name, pattern in which.items() if pattern.search(text)}
        if families:
            return family in families
    return True
