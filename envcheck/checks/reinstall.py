"""The build of torch that is installed, as requirements that bring it back."""

from __future__ import annotations

from envcheck.engine.intents import Install, Intent, SetEnv, TorchBuild
from envcheck.engine.rule import Facts
from envcheck.facts.snapshot import PackagesFacts, PythonFacts, TorchFacts
from envcheck.tables.archs import platform_of
from envcheck.tables.versions import local, release


def default_variant(facts: Facts) -> str | None:
    """The build variant that a plain install of this release gives here."""
    row = facts.tables.release(facts.torch.version) if facts.torch.version else None
    return row.default_variant.get(platform_of(facts.system.os or "linux", facts.system.machine or "x86_64")) if row else None


def again(facts: Facts) -> tuple[Intent, ...]:
    """The same build of torch again. A conda torch has no such command; where nothing tells which one it was, any that fits will do.

    Without metadata it was never installed to its end, or is no longer: what it requires may be missing too.
    """
    torch, rows = facts.torch, facts.packages.distributions
    anew = any(row.location for row in rows) and facts.packages.version("torch") is None
    version, variant = release(torch.version), local(torch.version)
    if anew and torch.version is None:
        return (TorchBuild(),)
    if not version or torch.conda or (facts.tables.release(version) is None and variant):
        return ()
    if not variant or variant == default_variant(facts):
        return (Install((f"torch=={version}",), reinstall=not anew),)
    # PyPI holds the default build only: the plain version would bring another one.
    return (Install((f"torch=={torch.version}",), reinstall=not anew, note=f"with --index-url https://download.pytorch.org/whl/{variant}"),)


def requirements(torch: TorchFacts) -> tuple[Intent, ...]:
    """torch as it is, with everything that it requires: what is there in the right version is left alone."""
    version = release(torch.version)
    return (Install((f"torch=={version}",), note="torch stays; this installs the right versions of what it requires"),) if version else ()


def _places(name: str, packages: PackagesFacts) -> list[str]:
    rows = (row for row in packages.distributions if row.name == name and row.installer != "conda")
    return [row.location.rstrip("/") for row in rows if row.location]


def over_each_other(name: str, packages: PackagesFacts) -> bool:
    """Whether two distributions of a name lie in one folder: an installer that finds one of them right may have the other one's files."""
    places = _places(name, packages)
    return len(places) > len(set(places)) == 1


def once(name: str, requirement: str, packages: PackagesFacts, python: PythonFacts) -> tuple[Intent, ...]:
    """What leaves one distribution of a name of which there are two."""
    places = _places(name, packages)
    if len(places) < 2:
        return ()
    if over_each_other(name, packages):
        return (
            Install(
                (requirement,),
                (name, name),
                note="both entries go first, since their files lie over each other; pip takes away one at a time, so its line stands twice",
            ),
        )
    if places[0] in [folder.rstrip("/") for folder in (python.pythonpath or "").split(":")]:
        return (SetEnv("PYTHONPATH", None, f"or take {places[0]} out of it"),)
    if python.user_site and python.user_site.rstrip("/") in places:
        return (SetEnv("PYTHONNOUSERSITE", "1", f"then {python.user_site} is not looked at"),)
    return ()
