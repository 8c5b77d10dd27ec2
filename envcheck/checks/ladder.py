"""Which transport of NCCL is at fault, as the live check found out: the trial that passes first after NCCL as it is did not names it."""

from __future__ import annotations

from envcheck.facts.record import record
from envcheck.facts.snapshot import Arm, LiveFacts, LiveStatus

SOCKET = "nccl-socket-"  # and the name of an interface
# Arm → what is at fault when it is the first to pass. Each has everything switched off that those before it have.
STEPS = {"nccl-p2p-off": "p2p", "nccl-shm-off": "shm", "nccl-ib-off": "ib"}
CONTROL = ("gloo-loopback", "gloo-file-store")
HOST = "gloo-host-loopback"  # where the control arm has a network of its own, this one tells of the machine's
BAD = (LiveStatus.FAIL, LiveStatus.HANG)


def explains(arm: Arm) -> bool:
    """An arm that is there to explain another one: a step, or NCCL's own diagnostics. Its failure is not a finding itself."""
    return arm.name in STEPS or arm.name.startswith(SOCKET) or arm.name in ("nccl-diagnostics", HOST)


def controls(live: LiveFacts) -> list[Arm]:
    """The arms that tell whether two processes of this machine meet at all."""
    return [arm for arm in live.arms if arm.name == HOST] or [arm for arm in live.arms if arm.name in CONTROL]


@record
class Bisection:
    """The search after NCCL as it is had failed. culprit: "p2p", "shm", "ib", "interface", "nccl" (nothing helps), "machine" (the
    control arm fails too), or None: the search was not made, or not to its end."""

    culprit: str | None
    plain: Arm
    passed: Arm | None = None
    tried: tuple[Arm, ...] = ()


def bisect_transports(live: LiveFacts) -> Bisection | None:
    """None if NCCL as it is was not tried between two ranks, or works."""
    plain = next((arm for arm in live.arms if arm.name == "nccl"), None)
    if plain is None or plain.status not in BAD:
        return None
    control = controls(live)
    if control and not any(arm.status is LiveStatus.PASS for arm in control):
        return Bisection("machine", plain)
    tried = tuple(arm for arm in live.arms if arm.name in STEPS or arm.name.startswith(SOCKET))
    if passed := next((arm for arm in tried if arm.status is LiveStatus.PASS), None):
        return Bisection(STEPS.get(passed.name, "interface"), plain, passed, tried)
    # Only a search made to its end shows that no transport works: arms without time say nothing.
    whole = control and set(STEPS) <= {arm.name for arm in tried} and all(arm.status in BAD for arm in tried)
    return Bisection("nccl" if whole else None, plain, None, tried)
