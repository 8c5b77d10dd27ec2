"""What trying the job's process group showed: hosts that are to blame, links between good ones, and a world that fails without either."""

from __future__ import annotations

from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, Severity, check
from envcheck.facts.fleet import FleetFacts
from envcheck.facts.hostlist import fold

SHOWN = 6  # trials in evidence


def _evidence(fleet: FleetFacts, hosts: tuple[str, ...] = ()) -> tuple[Evidence, ...]:
    """The trials that went wrong, of these hosts where some are named."""
    wrong = [one for one in fleet.trials if one.outcome in ("failed", "timeout") and (not hosts or set(hosts) & set(one.hosts))]
    wrong.sort(key=lambda one: len(one.ranks))
    return tuple(
        Evidence(
            f"{one.round} {one.backend}".strip(),
            f"{fold(one.hosts)}: {one.outcome} in the stage {one.stage or 'none'} {one.error or ''}".strip(),
        )
        for one in wrong[:SHOWN]
    )


@check(needs="fleet", reads="fleet")
def fleet_host_bad(facts: Facts) -> Answer:
    fleet = facts.fleet
    bad = tuple(host for host in fleet.bad_hosts if host not in fleet.slow_hosts)
    if not bad:
        return None
    cleared = f"; cleared by good partners: {fold(fleet.cleared_hosts)}" if fleet.cleared_hosts else ""
    return Hit({"hosts": bad, "names": fold(bad), "cleared": cleared}, _evidence(fleet, bad))


@check(needs="fleet", reads="fleet")
def fleet_host_slow(facts: Facts) -> Answer:
    slow = facts.fleet.slow_hosts
    if not slow:
        return None
    timed = [
        one for one in facts.fleet.trials if one.seconds is not None and one.round in ("pairs", "confirm") and set(slow) & set(one.hosts)
    ]
    evidence = tuple(Evidence(one.round, f"{fold(one.hosts)}: {one.seconds:.3g} s") for one in timed[:SHOWN])
    return Hit({"hosts": slow, "names": fold(slow)}, evidence)


@check(needs="fleet", reads="fleet")
def fleet_link_bad(facts: Facts) -> Answer:
    links = facts.fleet.bad_links
    if not links:
        return None
    evidence = tuple(Evidence("pairs", f"{one.source} and {one.target}: {one.error}") for one in links[:SHOWN])
    slow = all(one.ok for one in links)
    values = {"ways": [f"{one.source} and {one.target}" for one in links[:SHOWN]]}
    return Hit(values, evidence, variant="slow" if slow else None, severity=Severity.WARNING if slow else None)


@check(needs="fleet", reads="fleet")
def fleet_world_failed(facts: Facts) -> Answer:
    """The world failed, and no host and no link explains it."""
    fleet = facts.fleet
    variant = fleet.verdict
    if variant not in ("scale", "transport", "intermittent", "suspects", "inconclusive"):
        return None
    values = {"size": fleet.world_size, "backend": fleet.verdict_backend or "gloo", "suspects": fold(fleet.suspect_hosts)}
    confidence = Confidence.LIKELY if variant in ("intermittent", "suspects") else None
    return Hit(values, _evidence(fleet), variant=None if variant == "inconclusive" else variant, confidence=confidence)
