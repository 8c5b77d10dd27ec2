"""The agent's lines → sections of the snapshot. What died takes only its own section with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from envcheck.facts.codec import decode
from envcheck.facts.printable import one_line
from envcheck.facts.record import record, replace
from envcheck.facts.secrets import end_of
from envcheck.facts.snapshot import (
    Arm,
    BackendsFacts,
    DevicesFacts,
    Distribution,
    ImportStatus,
    LiveFacts,
    LiveStatus,
    Missing,
    PackagesFacts,
    PythonFacts,
    RankFacts,
    TorchFacts,
    Unmet,
    Why,
    WireFacts,
)
from envcheck.host.plain_files import real_path
from envcheck.tables.versions import applies, at_least, build_tag, meets, requirement
from envcheck.target.interpreter import of_tool
from envcheck.target.process import FILE_LIMIT, Ended, Target

T = TypeVar("T")

# The agent's first steps, before torch is imported; dying there is not torch's fault.
STATIC_STEPS = ("start", "python", "packages", "torch_static")


def sections(ended: Ended, target: Target, *, static: bool, live_asked: bool) -> dict[str, Any]:
    """python, packages, torch, backends, devices and live, each facts or Missing."""
    packages = _readable(lambda: _packages(ended))
    torch = _readable(lambda: _torch(ended, packages, static))
    return {
        "python": _readable(lambda: _python(ended, target)),
        "packages": packages,
        "torch": torch,
        "backends": _readable(lambda: _backends(ended, torch, static)),
        "devices": _readable(lambda: _devices(ended, torch, static)),
        "live": _readable(lambda: _live(ended, torch, static, live_asked)),
    }


def _readable(section: Callable[[], T | Missing]) -> T | Missing:
    """The section, or that it could not be read: the agent writes with the target's own interpreter and modules, whatever they are."""
    try:
        return section()
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        said = one_line(f"{type(error).__name__}: {error}", 200)
        return Missing(Why.FAILED, f"the target's interpreter answered with something that is no fact ({said})")


def _python(ended: Ended, target: Target) -> PythonFacts | Missing:
    value = (ended.section("python") or {}).get("value")
    if value is None:
        return _lost(ended, "python")
    kind = {"environment": "tool"} if of_tool(value["prefix"]) else {}
    facts: PythonFacts = decode(PythonFacts, {**value, **kind, "chosen_because": target.because})
    return facts


def _lost(ended: Ended, step: str) -> Missing:
    """Why a step of the agent has no result."""
    line = ended.section(step)
    if line and "error" in line:
        error = line["error"]
        return Missing(Why.FAILED, f"{error['type']}: {error['text']}", end_of(ended.stderr, 2000))
    if ended.ended_because:
        return Missing(
            Why.TIMEOUT,
            f"the target did not answer within {ended.seconds:.0f} s (last step: {ended.last_begin})",
            end_of(ended.stack, 2000),
        )
    return Missing(Why.FAILED, f"the target's interpreter {ended.death} in the step {ended.last_begin}", end_of(ended.stderr, 2000))


def _packages(ended: Ended) -> PackagesFacts | Missing:
    value = (ended.section("packages") or {}).get("value")
    if value is None:
        return _lost(ended, "packages")
    rows = tuple(decode(Distribution, row) for row in value["distributions"])
    imported = (ended.section("import") or {}).get("value") or {}
    watched = WATCHED if imported.get("status") == "ok" else (*WATCHED, "typing-extensions")
    seen: dict[str, set[str]] = {}
    for row in rows:
        if row.installer != "conda" or "conda-meta" not in (row.location or ""):
            seen.setdefault(row.name, set()).add(f"{row.location} {row.version}")
    absent, leftovers, overwritten, damaged = (
        decode(tuple[str, ...], value[name]) for name in ("absent", "leftovers", "overwritten", "damaged")
    )
    return PackagesFacts(
        distributions=rows,
        duplicates=tuple(sorted(name for name, places in seen.items() if len(places) > 1)),
        leftovers=leftovers,
        unmet=_unmet(decode(tuple[tuple[str, ...], ...], value["requirements"]), watched, absent, value["markers"], rows),
        overwritten=overwritten,
        damaged=damaged,
    )


# Requirements whose being of another version is looked at. What of pure Python torch requires seldom matters, and a rule says so.
WATCHED = ("torch", "pytorch", "nvidia-", "triton", "cuda-", "numpy", "xformers", "flash-attn", "rocm", "intel-",
           "sympy", "mpmath", "networkx", "jinja2", "fsspec", "filelock", "markupsafe")  # fmt: skip


def _unmet(
    requirements: Sequence[Sequence[str]],
    watched: Sequence[str],
    absent: Sequence[str],
    markers: Mapping[str, str],
    rows: Sequence[Distribution],
) -> tuple[Unmet, ...]:
    """Requirements of the torch family that are absent or of another version, by the target's own markers."""
    named = (*watched, *absent)
    installed: dict[str, str | None] = {}
    for row in rows:
        installed.setdefault(row.name, row.version)
    open_ones = [
        (owner, text)
        for owner, text in requirements
        if text.lower().replace("_", "-").startswith(named) and not _plainly_met(text, absent, installed)
    ]
    if not open_ones:
        return ()  # a CPU build beside nothing: not worth importing packaging's parser for, which costs as much as judging
    from packaging.markers import InvalidMarker
    from packaging.requirements import InvalidRequirement
    from packaging.utils import canonicalize_name

    found: list[Unmet] = []
    for owner, text in open_ones:
        try:
            wanted = requirement(text)
            owner, _, extra = owner.partition("[")  # "cuda-toolkit[cublas]"
            if wanted.marker and not applies(wanted.marker, {**markers, "extra": extra.rstrip("]")}):
                continue
        except (InvalidRequirement, InvalidMarker):
            continue
        name = canonicalize_name(wanted.name)
        version = installed.get(name)
        if name in absent:
            found.append(Unmet(owner, f"{wanted.name}{wanted.specifier}"))
        if version is not None and meets(version, str(wanted.specifier)) is False:
            found.append(Unmet(owner, f"{wanted.name}{wanted.specifier}", version))
    return tuple(dict.fromkeys(found))


_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_BOUND = re.compile(r"(>=)(\d[\w.]{0,40})|(<)(\d[\d.]{0,40})")


def _plainly_met(text: str, absent: Sequence[str], installed: Mapping[str, str | None]) -> bool:
    """Whether a requirement has bounds alone and no marker, and what is installed lies between them: "mpmath<1.4,>=1.1.0"."""
    named = _NAME.match(text)
    if named is None:
        return False
    name = re.sub(r"[-_.]+", "-", named[0]).lower()
    version = installed.get(name)
    bounds = [_BOUND.fullmatch(one.strip()) for one in text[named.end() :].split(",") if len(text) > named.end()]  # "filelock" has none
    if not version or name in absent or not all(bounds):
        return False
    found = [(one[1] or one[3], one[2] or one[4]) for one in bounds if one]
    if any(sign == "<" for sign, _ in found) and set(version) - set("0123456789."):  # "<1.4" has its own mind about 1.4rc1
        return False
    return all(at_least(version, number) is (sign == ">=") for sign, number in found)


def _torch(ended: Ended, packages: PackagesFacts | Missing, static: bool) -> TorchFacts | Missing:
    static_line = ended.section("torch_static")
    found = (static_line or {}).get("value")
    distribution = _torch_distribution(packages)
    if static_line is None and ended.ended_because == "import":  # a finder on sys.meta_path does not come back: no import would
        version = distribution.version if distribution else None
        hung: TorchFacts = decode(TorchFacts, {"version": version, **_death_at_import(ended)})
        return hung
    if static_line is None:
        return _lost(ended, "torch_static")
    if found is None and distribution is None:
        if "error" in static_line:
            return _lost(ended, "torch_static")
        return Missing(Why.ABSENT, "torch is not installed in this interpreter")
    if found and found.get("namespace_only") and not _lacks_only_files(packages):
        # What an uninstalled torch leaves behind: a folder that Python takes for a package without content.
        return Missing(Why.ABSENT, "torch is not installed in this interpreter", found["path"] or "")
    imported = (ended.section("torch") or {}).get("value") or {}
    known = {**_static_facts(found or {}, distribution), **{key: value for key, value in imported.items() if value is not None}}
    known.update(_import_facts(ended, found, distribution, static))
    asked = ended.section("devices") or {}  # the flags of the build are there even where asking the devices failed
    value = asked.get("value") or {}
    late = {"arch_list": asked.get("arch_list") or value.get("arch_list"), "config": value.get("config")}
    known.update((key, told) for key, told in late.items() if told and known.get(key) is None)
    if lost := (ended.section("preload") or {}).get("error"):
        known["dynamo_failure"] = lost
    known["cpu_build"] = _is_cpu_build(known)
    known["conda"] = distribution.installer == "conda" if distribution else None
    facts: TorchFacts = decode(TorchFacts, known)
    return facts


def _lacks_only_files(packages: PackagesFacts | Missing) -> bool:
    """torch is installed, and its torch/__init__.py has been lost since."""
    return not isinstance(packages, Missing) and "torch/__init__.py (torch)" in packages.damaged


def _torch_distribution(packages: PackagesFacts | Missing) -> Distribution | None:
    if isinstance(packages, Missing):
        return None
    for name in ("torch", "pytorch", "pytorch-gpu"):
        for row in packages.distributions:
            if row.name == name:
                return row
    return None


def _static_facts(found: Mapping[str, Any], distribution: Distribution | None) -> dict[str, Any]:
    version = found.get("version") or (distribution.version if distribution else None)
    facts: dict[str, Any] = {"version": version, "path": found.get("path"), "git_version": found.get("git_version")}
    if "cuda" in found:  # torch/version.py was read
        facts.update({key: found.get(key) for key in ("cuda", "hip", "xpu")})
        facts["read_version_py"] = True
    elif version:
        tag = build_tag(version)
        facts.update({key: told for key, told in (("cuda", tag.cuda), ("hip", tag.rocm)) if told})
    return facts


def _is_cpu_build(known: dict[str, Any]) -> bool | None:
    """None if nothing says which build it is (a distribution without torch/version.py)."""
    read = known.pop("read_version_py", False)
    if any(known.get(key) for key in ("cuda", "hip", "xpu")):
        return False
    if build_tag(known.get("version")).cpu:
        return True
    if known.get("import_status") == ImportStatus.OK.value or read:
        return True
    return None


def _import_facts(ended: Ended, found: Mapping[str, Any] | None, distribution: Distribution | None, static: bool) -> dict[str, Any]:
    """import_status and what goes with it."""
    if found is None and distribution is not None:
        text = f"no module named torch is on sys.path, although {distribution.location} says that {distribution.version} is installed"
        return {"import_status": "error", "import_failure": {"type": "ModuleNotFoundError", "text": text}}
    if found and found.get("namespace_only"):
        return {"import_status": "not_torch"}
    if static:
        return {"import_status": "skipped"}
    line = ended.section("import")
    if line is None:
        return _death_at_import(ended)
    value = line["value"]
    facts: dict[str, Any] = {
        "import_seconds": value["seconds"],
        "import_warnings": value["warnings"],
        "import_noise": value["noise"],
        "import_status": value["status"],
    }
    if value["status"] != "ok":
        keys = ("type", "text", "exit_code", "stack")
        kept = {key: value[key] for key in keys if value.get(key) is not None}
        stack = {"stack": end_of(kept["stack"], 4000)} if isinstance(kept.get("stack"), str) else {}
        facts["import_failure"] = {**kept, **stack, "stderr": end_of(ended.stderr, 3000)}
    return facts


def _death_at_import(ended: Ended) -> dict[str, Any]:
    if ended.last_begin in STATIC_STEPS and ended.ended_because != "import":
        return {"import_status": "skipped"}
    failure: dict[str, Any] = {"stderr": end_of(ended.stderr, 4000), "stack": end_of(ended.stack, 16000) or end_of(ended.stderr, 4000)}
    if ended.ended_because:
        failure["text"] = f"did not return within {ended.seconds:.0f} s"
        if ended.activity:
            failure |= ended.activity.facts()
        return {"import_status": "timeout", "import_seconds": ended.seconds, "import_failure": failure}
    if ended.signal or ended.code is None:
        return {
            "import_status": "crashed",
            "import_failure": {**failure, "signal": ended.signal, "text": f"the interpreter {ended.death}"},
        }
    if ended.code == FILE_LIMIT:
        text = "no file may grow any more: the limit of their size (RLIMIT_FSIZE, ulimit -f) is reached, which was not so before the import"
        return {"import_status": "error", "import_failure": {**failure, "type": "OSError", "text": text}}
    text = f"the interpreter ended with exit code {ended.code}"
    return {"import_status": "exited", "import_failure": {**failure, "exit_code": ended.code, "text": text}}


def _unavailable(torch: TorchFacts | Missing, static: bool) -> Missing | None:
    """Why nothing can be known of a torch that was not imported."""
    if isinstance(torch, Missing):
        return Missing(torch.why, torch.reason)
    if static:
        return Missing(Why.SKIPPED, "torch was not imported (--static)")
    if torch.import_status is not ImportStatus.OK:
        why = Why.TIMEOUT if torch.import_status is ImportStatus.TIMEOUT else Why.FAILED
        return Missing(why, "torch could not be imported")
    return None


def _backends(ended: Ended, torch: TorchFacts | Missing, static: bool) -> BackendsFacts | Missing:
    missing = _unavailable(torch, static)
    if missing:
        return missing
    value = (ended.section("backends") or {}).get("value")
    if value is None:
        return _lost(ended, "backends")
    asked = (ended.section("devices") or {}).get("value") or {}
    extra = {key: asked[key] for key in ("cudnn", "cusparselt", "mps") if asked.get(key) is not None}
    if isinstance(torch, TorchFacts) and torch.xpu:
        extra["xpu"] = asked.get("available")
    facts: BackendsFacts = decode(BackendsFacts, {**value, **extra})
    return facts


def _devices(ended: Ended, torch: TorchFacts | Missing, static: bool) -> DevicesFacts | Missing:
    missing = _unavailable(torch, static)
    if missing:
        return missing
    line = ended.section("devices")
    if line is None:
        return _lost(ended, "devices")
    if "error" in line:
        error = line["error"]
        why = Why.TIMEOUT if error["type"] == "timeout" else Why.FAILED
        return Missing(why, error["text"], str(error.get("stack", "")) or end_of(ended.stderr, 2000))
    value = dict(line["value"])
    text = " ".join([value.get("error") or "", *value.get("warnings", ())])
    if match := re.search(r"\bError (\d{1,3})\b", text):  # "Error 804: forward compatibility was attempted on non supported HW"
        value["error_code"] = int(match[1])
    facts: DevicesFacts = decode(DevicesFacts, value)
    return facts


# An arm of the ladder explains a failure; it is none itself.
MAIN_ARMS = ("gloo-loopback", "gloo-as-is", "nccl", "xccl", "nccl-one-rank", "xccl-one-rank", "gloo-cuda", "mpi", "ucc",
             "one-process", "one-process-gpu")  # fmt: skip
PREFERRED = ("nccl", "xccl", "mpi", "ucc", "gloo-cuda", "gloo-loopback", "nccl-one-rank", "xccl-one-rank", "gloo-as-is",
             "one-process-gpu", "one-process")  # fmt: skip


@record
class _LiveEnd:
    """The last line of the live check, as the agent writes it."""

    start_method: str = ""
    start_reason: str | None = None
    skipped: tuple[str, ...] = ()
    order: tuple[str, ...] = ()  # of the full check's trials, which run side by side


def _live(ended: Ended, torch: TorchFacts | Missing, static: bool, asked: bool) -> LiveFacts | Missing:
    if not asked:
        return Missing(Why.SKIPPED, "switched off (--static)" if static else "switched off (--live off)")
    missing = _unavailable(torch, static)
    if missing:
        return missing
    value = (ended.section("live") or {}).get("value")
    end: _LiveEnd | None = None if value is None else decode(_LiveEnd, value)
    # One that is done again elsewhere (agent/quick_check.py) takes the place of the first.
    arms = tuple({arm.name: arm for arm in (_arm(line["value"]) for line in ended.sections("arm"))}.values())
    if end is None:
        told = ended.section("live") or {}  # what it ended by itself with comes before what was wrong earlier
        preload = None if "error" in told else (ended.section("preload") or {}).get("error")
        lost = Missing(Why.FAILED, f"importing torch._dynamo {preload['text']}") if preload and not arms else _lost(ended, "live")
        if not arms:
            return lost
        return LiveFacts(LiveStatus.INCONCLUSIVE, lost.reason, arms=arms)
    order = {name: at for at, name in enumerate(end.order)}
    arms = tuple(sorted(arms, key=lambda arm: order.get(arm.name, -1)))
    live = replace(summary(arms, end.start_method, end.skipped), start_reason=end.start_reason)
    measured = next((line["value"]["wire"] for line in ended.sections("arm") if line["value"].get("wire")), None)
    return replace(live, wire=decode(WireFacts, measured)) if measured else live


def _arm(value: Mapping[str, Any]) -> Arm:
    arm: Arm = decode(Arm, value)
    return arm


def summary(arms: Sequence[Arm], start_method: str, skipped: Sequence[str]) -> LiveFacts:
    """One verdict over the arms: the first trouble of a main arm, then of the full check, else that of the arm that proves most."""
    main = [arm for arm in arms if arm.name in MAIN_ARMS]
    parts = sorted((arm for arm in arms if arm.part), key=lambda arm: arm.status is LiveStatus.HANG)  # a failure says more than a hang
    broken = [arm for arm in (*main, *parts) if arm.status in (LiveStatus.FAIL, LiveStatus.HANG)]
    troubled = broken or [arm for arm in main if arm.status is not LiveStatus.PASS]
    proved = sorted((arm for arm in main if arm.status is LiveStatus.PASS), key=lambda arm: PREFERRED.index(arm.name))
    left_open = (*skipped, *_left_open(arms))
    if not main and not broken:
        reason = "; ".join(skipped) or "no backend could be tried"
        return LiveFacts(LiveStatus.INCONCLUSIVE, reason, start_method=start_method, arms=tuple(arms), not_proved=left_open)
    shown = troubled[0] if troubled else proved[0]
    ranks: tuple[RankFacts, ...] = shown.ranks
    stages = [stage.name for stage in max((rank.stages for rank in ranks), key=len, default=())]
    return LiveFacts(
        status=shown.status,
        reason=f"{shown.name}: {shown.reason}" if shown.reason else "",
        backend=shown.backend,
        world_size=shown.world_size,
        start_method=start_method,
        ranks=ranks,
        stages=tuple(stages),
        arms=tuple(arms),
        not_proved=left_open,
    )


def _left_open(arms: Sequence[Arm]) -> list[str]:
    """Parts of the full check that were not done or did not decide, those with the same reason in one line."""
    reasons: dict[str, list[str]] = {}
    for arm in arms:
        if arm.part and arm.status in (LiveStatus.SKIPPED, LiveStatus.INCONCLUSIVE):
            reasons.setdefault(arm.reason, []).append(arm.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]


def private_stderr(text: str, folder: str) -> str:
    """Output without the name of our own temporary folder, which differs from run to run."""
    return text.replace(folder, "<private folder>").replace(real_path(folder), "<private folder>")
