"""Which hosts are to blame when a job's ranks cannot work together: what is to be tried next, and what the trials prove.

Pure: everything is a function of who lives where and of the trials so far, so that rank 0 may decide, and whoever has a record of the
trials decides the same.

A cell is what can be blamed: a host with all its ranks, or, where there are too few hosts for that, a rank. Two cells that work
together are both good. One that fails is a suspect until it has worked with a good one; it is bad when it failed with two good ones
(three where it is only slow, and among few cells in pairs that were tried twice), or with one while it did not even answer. So one broken
link blames nobody. Who said nothing in the world is asked again by itself, beside the pairs: it keeps no partner waiting, and silent twice
it is bad where others work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from envcheck.checks.peers import slow_beyond
from envcheck.facts.fleet import FleetFacts, FleetLink, FleetTrial
from envcheck.facts.record import record, replace

FEWEST_HOSTS = 4  # with fewer, a pair of hosts is most of the world, and ranks are paired instead
FEW_CELLS = 6  # with fewer, a wave has too few pairs to tell a slow one by its peers: every two are tried
BLIND_WAVES = 3  # of pairs while none has passed
CONFIRM_WAVES = 4
FEW_CONFIRM_WAVES = 6  # of few cells, which repeat pairs of a slow one
PROOFS = 2  # good partners that a bad one has failed with
SLOW_PROOFS = 3  # the same of a slow one: a pause strikes anybody, and a wave of pairs that work costs little
BESIDE = 6  # good pairs beside the suspects, for comparison: two that are held up do not count among so many
GOOD, SLOW, BAD = "good", "slow", "bad"


@record
class Cell:
    host: str
    ranks: tuple[int, ...]


@record
class Round:
    """What all ranks try next: each group by itself, all at once."""

    name: str  # of FleetTrial.round
    groups: tuple[tuple[int, ...], ...]


@record
class Isolation:
    verdict: str  # of FleetFacts.verdict
    bad: tuple[Cell, ...] = ()
    slow: tuple[Cell, ...] = ()  # those of the bad ones that work
    cleared: tuple[Cell, ...] = ()
    suspects: tuple[Cell, ...] = ()
    links: tuple[FleetLink, ...] = ()


def next_round(hosts: Mapping[int, str], trials: Sequence[FleetTrial]) -> Round | None:
    """What shows more than `trials` of one backend do; None where nothing would. `hosts` tells where each rank lives."""
    board = Board(hosts, trials)
    everyone = tuple(rank for cell in board.cells for rank in cell.ranks)
    starts = board.rounds.get("start", ())
    if not everyone or (starts and all(one.outcome == "failed" for one in starts)) or ("world" in board.rounds and len(everyone) == 1):
        return None
    if "world" not in board.rounds:
        return Round("world", (everyone,))
    return board.pairs() or board.confirm() or board.rest(everyone)


def judge(hosts: Mapping[int, str], trials: Sequence[FleetTrial]) -> Isolation:
    """What the trials of one backend prove."""
    board = Board(hosts, trials)
    bad, suspects = board.bad(), board.undecided()
    cells = board.cells
    named = [*board.broken, *(cells[number] for number in bad)]
    slow = tuple(cells[number] for number, kind in bad.items() if kind == SLOW)
    cleared = tuple(cells[number] for number in sorted(board.good & board.suspected))
    doubted = tuple(cells[number] for number in sorted(suspects) if board.edges_of(number))
    links = board.links()
    return Isolation(board.verdict(named, doubted, links), tuple(named), slow, cleared, doubted, links)


def united(facts: FleetFacts, hosts: Mapping[int, str], trials: Sequence[FleetTrial]) -> FleetFacts:
    """`facts` with all trials and with what they prove: of the last backend that was tried, since the ones before let it go on."""
    facts = replace(facts, trials=tuple(trials))
    bad: list[Cell] = []
    slow: list[Cell] = []
    cleared: list[Cell] = []
    tried = dict.fromkeys(one.backend for one in trials if one.outcome != "skipped")
    for backend in [one for one in tried if one] or tried:
        found = judge({rank: host for rank, host in hosts.items() if host not in _hosts(bad)}, of_backend(trials, backend))
        bad += found.bad
        slow += found.slow
        cleared += found.cleared
        facts = replace(facts, verdict=found.verdict, verdict_backend=backend, bad_links=found.links, suspect_hosts=_hosts(found.suspects))
        if found.verdict not in ("passed", "hosts"):
            break
    if facts.verdict == "passed" and bad:  # by the backend before
        facts = replace(facts, verdict="hosts")
    ranks = tuple(sorted(rank for cell in bad for rank in cell.ranks))
    names = _hosts(bad)
    return replace(
        facts,
        verdict=facts.verdict or "skipped",
        bad_hosts=names,
        bad_ranks=ranks,
        slow_hosts=_hosts(slow),
        cleared_hosts=tuple(one for one in _hosts(cleared) if one not in names),
    )


def of_backend(trials: Iterable[FleetTrial], backend: str) -> list[FleetTrial]:
    """Those over `backend`, and the starts, which are before any. A pair that proved nothing is skipped, but its wave has been."""
    told = [one for one in trials if one.backend in (backend, "")]
    return [one for one in told if one.outcome != "skipped" or one.round in ("pairs", "confirm")]


def _hosts(cells: Iterable[Cell]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cell.host for cell in cells))


def cells_of(hosts: Mapping[int, str]) -> tuple[Cell, ...]:
    """Ranks in an order in which neighbours live on different hosts as far as there are any."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(hosts):
        ranks.setdefault(hosts[rank], []).append(rank)
    if len(ranks) >= FEWEST_HOSTS:
        return tuple(Cell(host, tuple(own)) for host, own in ranks.items())
    most = max((len(own) for own in ranks.values()), default=0)
    return tuple(Cell(host, (own[place],)) for place in range(most) for host, own in ranks.items() if place < len(own))


def matching(count: int, wave: int) -> list[tuple[int, int]]:
    """Disjoint pairs of 0 … count-1: neighbours first, in count-1 waves (one more for an odd count) every two once; a tournament by the
    circle method, with the places so numbered that wave 0 pairs neighbours."""
    size = count + count % 2
    if size < 2:
        return []
    # In the circle (0 fixed, wave 0) place i meets place size-1-i: number those two as neighbours.
    name = [0] * size
    for place in range(size // 2):
        name[place], name[size - 1 - place] = 2 * place, 2 * place + 1
    turn = wave % (size - 1)
    circle = [0, *(1 + (place + turn) % (size - 1) for place in range(size - 1))]
    found = [(name[circle[place]], name[circle[size - 1 - place]]) for place in range(size // 2)]
    return sorted((min(pair), max(pair)) for pair in found if max(pair) < count)


@record
class CellTrial:
    """One trial of two cells."""

    pair: tuple[int, int]
    trial: FleetTrial
    grade: str


class Board:
    """The trials of one backend, sorted."""

    def __init__(self, hosts: Mapping[int, str], trials: Sequence[FleetTrial]) -> None:
        self.rounds: dict[str, list[FleetTrial]] = {}
        for trial in trials:
            self.rounds.setdefault(trial.round, []).append(trial)
        starts = self.rounds.get("start", ())
        started = any(trial.outcome == "passed" for trial in starts)
        stillborn = {rank for trial in starts if started and trial.outcome == "failed" for rank in trial.ranks}
        lost = {hosts[rank] for rank in stillborn if rank in hosts}
        # Where torch cannot even be imported there is nothing to pair.
        self.broken = tuple(Cell(host, tuple(rank for rank in sorted(stillborn) if hosts.get(rank) == host)) for host in sorted(lost))
        self.cells = cells_of({rank: host for rank, host in hosts.items() if host not in lost})
        self.place = {rank: number for number, cell in enumerate(self.cells) for rank in cell.ranks}
        told = self.rounds.get("world", ())
        mute = {self.place[rank] for trial in told if trial.outcome != "passed" for rank in trial.alone if rank in self.place}
        self.mute = mute if len(self.cells) - len(mute) > 1 else set()  # two others at least can be good with each other
        self.dead = self._dead()
        tried = self._edges()
        self.latest = {edge.pair: edge for edge in tried}
        self.grades: dict[tuple[int, int], list[str]] = {}
        for edge in tried:
            self.grades.setdefault(edge.pair, []).append(edge.grade)
        self.good = {number for edge in tried if edge.grade == GOOD for number in edge.pair}
        first: dict[int, str] = {}
        for edge in tried:
            for number in edge.pair:
                first.setdefault(number, edge.grade)
        self.suspected = self.mute | {number for number, grade in first.items() if grade != GOOD}

    def _edges(self) -> list[CellTrial]:
        found: list[tuple[tuple[int, int], FleetTrial]] = []
        for name in ("pairs", "confirm"):
            for trial in self.rounds.get(name, ()):
                ends = sorted({self.place[rank] for rank in trial.ranks if rank in self.place})
                if len(ends) == 2 and trial.outcome != "skipped":
                    found.append(((ends[0], ends[1]), trial))
        limits = _limits(found, len(self.cells))
        return [CellTrial(pair, trial, _grade(trial, limits.get(trial.wave))) for pair, trial in found]

    def _dead(self) -> set[int]:
        """Those that said nothing in the world, and nothing when they were asked by themselves."""
        found: set[int] = set()
        for trial in self.rounds.get("pairs", ()):
            ends = {self.place[rank] for rank in trial.ranks if rank in self.place}
            if len(ends) == 1 and trial.outcome not in ("passed", "skipped") and trial.alone:
                found |= ends & self.mute
        return found

    def edges_of(self, number: int) -> list[CellTrial]:
        return [edge for edge in self.latest.values() if number in edge.pair]

    @property
    def world_failed(self) -> bool:
        return any(trial.outcome != "passed" for trial in self.rounds.get("world", ()))

    def pairs(self) -> Round | None:
        """The next wave of disjoint pairs, if one is needed; in the first those that said nothing are by themselves."""
        waves = len({trial.wave for trial in self.rounds.get("pairs", ())})
        lone = self.dead if waves else self.mute
        paired = [number for number in range(len(self.cells)) if number not in lone]
        count = len(paired)
        if len(self.cells) < 3 or waves >= count - 1 + count % 2:
            return None
        known = {self.cells[number].host for number in self.good}
        hosts = {cell.host for cell in self.cells}
        # Ranks of one host that all fail with those of another say nothing of either: some have to work among themselves.
        blind = (not known or (known != hosts and len(hosts) < FEWEST_HOSTS <= count)) and waves < BLIND_WAVES
        few = count < FEW_CELLS and not self.suspected
        if waves and not blind and not few:
            return None
        groups = [self._group(paired[one], paired[other]) for one, other in matching(count, waves)]
        return Round("pairs", (*groups, *(self.cells[number].ranks for number in sorted(lone) if not waves)))

    def confirm(self) -> Round | None:
        """Those that need more evidence, each with a good partner that it has not met; some good pairs beside them, for comparison."""
        most = CONFIRM_WAVES if len(self.cells) >= FEW_CELLS else FEW_CONFIRM_WAVES
        if len({trial.wave for trial in self.rounds.get("confirm", ())}) >= most:
            return None
        free, groups = sorted(self.good), []
        for number in sorted(self.undecided()):
            met = {self.cells[_other(edge.pair, number)].host for edge in self.edges_of(number)}
            unmet = [one for one in free if _pair(number, one) not in self.latest] or self._again(number, free)
            if unmet:
                partner = min(unmet, key=lambda one: (self.cells[one].host in met, one))
                free.remove(partner)
                groups.append(_pair(number, partner))
        for pair in sorted(self.latest):
            if self._against(pair) is None and pair[0] in free and pair[1] in free:  # good both: is it the link, or was it chance?
                free = [one for one in free if one not in pair]
                groups.append(pair)
        if not groups:
            return None
        beside = list(zip(free[0::2], free[1::2], strict=False))[: max(BESIDE, len(groups))]
        return Round("confirm", tuple(self._group(*pair) for pair in (*groups, *beside)))

    def _against(self, pair: tuple[int, int]) -> bool | None:
        """Whether a pair has shown often enough that it does not work, or is slow; None: it has to show it again. Once at its full pace it
        is not slow: a busy machine holds up anybody. Among three no pair has a peer of the same wave."""
        grades, latest = self.grades[pair], self.latest[pair].grade
        if latest == GOOD or (latest == SLOW and (GOOD in grades or len(self.cells) < FEWEST_HOSTS)):
            return False
        enough = len(grades) - grades.count(GOOD) >= (SLOW_PROOFS if latest == SLOW else PROOFS)
        return enough or None

    def _again(self, number: int, partners: Iterable[int]) -> list[int]:
        """Of few cells each has met all others, a good part of them while the machine was held up: the same pairs once more."""
        if len(self.cells) >= FEW_CELLS:
            return []
        pairs = {one: _pair(number, one) for one in partners}
        return [one for one, pair in pairs.items() if self.latest[pair].grade == SLOW and len(self.grades[pair]) < PROOFS]

    def _sure_of_time(self, met: Sequence[CellTrial]) -> bool:
        """Few cells have few pairs, and a machine that is held up for some waves slows most of them."""
        return len(self.cells) >= FEW_CELLS or sum(len(self.grades[edge.pair]) >= PROOFS for edge in met) >= PROOFS

    def rest(self, everyone: Sequence[int]) -> Round | None:
        """The world again without those under suspicion, and where that fails too, over plain sockets: is it the hosts at all?"""
        if not self.world_failed:
            return None
        out = {rank for number in (*self.bad(), *self.undecided()) for rank in self.cells[number].ranks} if self.good else set()
        others = tuple(rank for rank in everyone if rank not in out)
        if "rest" not in self.rounds and self.good and len(others) > 1:
            return Round("rest", (others,))
        failed = not any(trial.outcome == "passed" for trial in self.rounds.get("rest", ()))
        return Round("control", (others,)) if failed and "control" not in self.rounds and len(others) > 1 else None

    def undecided(self) -> set[int]:
        """Neither good nor bad."""
        return set(range(len(self.cells))) - self.good - set(self.bad())

    def bad(self) -> dict[int, str]:
        """The bad ones and whether they are so (BAD) or far slower than their peers (SLOW)."""
        found: dict[int, str] = {}
        hosts = {cell.host for cell in self.cells}
        for number in sorted(set(range(len(self.cells))) - self.good):
            met = [edge for edge in self.edges_of(number) if _other(edge.pair, number) in self.good]
            ranks = set(self.cells[number].ranks)
            mute = any(ranks & set(edge.trial.alone) for edge in met)
            # Partners of one host may all be reached over the same broken way.
            wide = len({self.cells[_other(edge.pair, number)].host for edge in met}) >= min(2, len(hosts))
            if mute or (number in self.dead and self.good) or (wide and sum(edge.grade == BAD for edge in met) >= PROOFS):
                found[number] = BAD
            elif wide and len(met) >= min(SLOW_PROOFS, len(self.cells) - 1) and self._sure_of_time(met):
                found[number] = SLOW
        return found

    def links(self) -> tuple[FleetLink, ...]:
        """Between good cells that twice did not work together."""
        found: dict[tuple[str, str], FleetLink] = {}
        for pair, edge in sorted(self.latest.items()):
            if self._against(pair) and pair[0] in self.good and pair[1] in self.good:
                source, target = (self.cells[number].host for number in pair)
                error = edge.trial.error or edge.trial.outcome if edge.grade == BAD else "slow"
                link = FleetLink(source, target, "world", ok=edge.grade == SLOW, seconds=edge.trial.seconds, error=error)
                found.setdefault((source, target), link)
        return tuple(found.values())

    def verdict(self, named: Sequence[Cell], doubted: Sequence[Cell], links: Sequence[FleetLink]) -> str:
        if "world" not in self.rounds:
            return "hosts" if named else "inconclusive" if self.rounds else "skipped"
        if named:
            return "hosts"
        if links:
            return "links"
        if not self.world_failed:
            return "suspects" if doubted else "passed"
        if any(trial.outcome == "passed" for trial in self.rounds.get("control", ())):
            return "transport"
        if not self.good:
            return "inconclusive"
        if doubted:
            return "suspects"
        return "intermittent" if any(trial.outcome == "passed" for trial in self.rounds.get("rest", ())) else "scale"

    def _group(self, one: int, other: int) -> tuple[int, ...]:
        return tuple(sorted((*self.cells[one].ranks, *self.cells[other].ranks)))


def _pair(one: int, other: int) -> tuple[int, int]:
    return (one, other) if one < other else (other, one)


def _other(pair: tuple[int, int], number: int) -> int:
    return pair[1] if pair[0] == number else pair[0]


def _grade(trial: FleetTrial, limit: float | None) -> str:
    if trial.outcome != "passed":
        return BAD
    return SLOW if limit is not None and trial.seconds is not None and trial.seconds > limit else GOOD


def _limits(found: Sequence[tuple[tuple[int, int], FleetTrial]], cells: int) -> dict[int, float | None]:
    """For each wave the time above which a pair of it is slow. The load differs from wave to wave, so peers are those of the same wave;
    in a later one those that the first has found no fault with."""
    times: dict[int, list[tuple[tuple[int, int], float]]] = {}
    for pair, trial in found:
        if trial.outcome == "passed" and trial.seconds is not None:
            times.setdefault(trial.wave, []).append((pair, trial.seconds))
    if cells < FEW_CELLS:  # the best of each cell, over all waves
        best: dict[int, float] = {}
        for pair, seconds in (one for wave in times.values() for one in wave):
            for number in pair:
                best[number] = min(seconds, best.get(number, seconds))
        return dict.fromkeys(times, slow_beyond(list(best.values())))
    limits: dict[int, float | None] = {}
    good: set[int] = set()
    for wave in sorted(times):
        peers = [seconds for pair, seconds in times[wave] if not good or (pair[0] in good and pair[1] in good)]
        if len(peers) < 3 and good:
            first = times[min(times)]
            peers += [seconds for _, seconds in first]
        limit = slow_beyond(peers)
        if limit is not None:
            # Few good pairs are left beside many suspects, and one held up widens the limit. Who keeps to it is a peer as well.
            limit = min(limit, slow_beyond([seconds for _, seconds in times[wave] if seconds <= limit]) or limit)
        limits[wave] = limit
        good |= {number for pair, seconds in times[wave] if limit is None or seconds <= limit for number in pair}
    return limits
