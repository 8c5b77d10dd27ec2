"""The decisions of isolation, on simulated jobs whose faults are known."""

from __future__ import annotations

import random

import pytest

from envcheck.checks.peers import slow_beyond
from envcheck.facts.fleet import FleetFacts, FleetTrial
from envcheck.facts.record import field, mutable, replace
from envcheck.fleet.isolation import (
    BLIND_WAVES,
    CONFIRM_WAVES,
    Cell,
    Isolation,
    Round,
    cells_of,
    judge,
    matching,
    next_round,
    of_backend,
    united,
)


@mutable
class Job:
    """A simulated job: what is wrong with it, and dice for everything else."""

    hosts: dict[int, str]
    dice: random.Random
    frozen: set[int] = field(default_factory=set)  # ranks that do not answer
    deaf: set[int] = field(default_factory=set)  # ranks that answer the store and reach nobody
    slow: dict[int, float] = field(default_factory=dict)  # rank → how many times as long
    cut: set[tuple[int, int]] = field(default_factory=set)  # one-way links between ranks over which nothing comes
    slow_links: dict[tuple[int, int], float] = field(default_factory=dict)
    hiccup: float = 0.0  # chance that a group is held up for a while
    scale: int | None = None  # groups of more ranks than that fail
    needs_control: bool = False  # nothing works but over plain sockets
    fails: dict[str, int] = field(default_factory=dict)  # round → how often it fails whatever is tried

    def trial(self, name: str, wave: int, ranks: tuple[int, ...]) -> FleetTrial:
        inside = set(ranks)
        hosts = tuple(dict.fromkeys(self.hosts[rank] for rank in ranks))
        alone = tuple(sorted(self.frozen & inside))
        cut = any(one in inside and other in inside for one, other in self.cut)
        broken = bool(alone or self.deaf & inside or cut) or (self.needs_control and name != "control")
        if self.scale is not None and len(ranks) > self.scale:
            broken = True
        if self.fails.get(name, 0):
            self.fails[name] -= 1
            broken = True
        if broken:
            return FleetTrial(name, "gloo", ranks, hosts, "timeout", stage="init", wave=wave, alone=alone)
        seconds = 0.5 * self.dice.lognormvariate(0, 0.12)
        seconds *= max([self.slow.get(rank, 1.0) for rank in ranks])
        seconds *= max([times for (one, other), times in self.slow_links.items() if {one, other} <= inside], default=1.0)
        if self.dice.random() < self.hiccup:
            seconds += self.dice.uniform(0.5, 5.0)
        return FleetTrial(name, "gloo", ranks, hosts, "passed", seconds, wave=wave)

    def run(self) -> tuple[Isolation, list[FleetTrial], list[Round]]:
        trials: list[FleetTrial] = []
        rounds: list[Round] = []
        while (planned := next_round(self.hosts, trials)) is not None:
            assert len([rank for group in planned.groups for rank in group]) == len({rank for group in planned.groups for rank in group})
            trials += [self.trial(planned.name, len(rounds), group) for group in planned.groups]
            rounds.append(planned)
            assert len(rounds) < 4 + BLIND_WAVES + CONFIRM_WAVES + 5
        return judge(self.hosts, trials), trials, rounds


def job(count: int, seed: int = 0, ranks_a_host: int = 1, **faults: object) -> Job:
    return Job({rank: f"n{rank // ranks_a_host:03}" for rank in range(count)}, random.Random(seed), **faults)  # noqa: S311


def hosts(cells: tuple[Cell, ...]) -> set[str]:
    return {cell.host for cell in cells}


def names(rounds: list[Round]) -> list[str]:
    return [one.name for one in rounds]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 8, 31, 32, 129, 2000])
def test_a_healthy_job_blames_nobody_and_costs_two_rounds(count: int) -> None:
    found, trials, rounds = job(count).run()
    assert (found.verdict, found.bad, found.suspects, found.links) == ("passed", (), (), ())
    # An odd one out needs a partner; with three to five all pairs are compared.
    assert len(rounds) == {2: 1, 3: 4, 4: 4, 5: 6}.get(count, 2 if count % 2 == 0 else 3)
    assert {rank for one in trials[1:] for rank in one.ranks} == (set(range(count)) if count > 2 else set())


@pytest.mark.parametrize("seed", range(300))
def test_random_faults_in_32_hosts(seed: int) -> None:
    """Nobody innocent is blamed and nobody who fails is missed, whatever the faults, the dice of the timing and broken links."""
    dice = random.Random(seed)  # noqa: S311
    order = list(range(32))
    dice.shuffle(order)
    counts = [dice.randint(0, 3) for _ in range(3)]
    frozen, deaf, slow = (set(order[sum(counts[:place]) : sum(counts[: place + 1])]) for place in range(3))
    healthy = order[sum(counts) :]
    dice.shuffle(healthy)
    cut = {(healthy[0], healthy[1])} if dice.random() < 0.5 else set()
    slow_links = {(healthy[2], healthy[3]): 4.0} if dice.random() < 0.3 else {}
    patient = job(
        32,
        seed,
        frozen=frozen,
        deaf=deaf,
        slow={rank: dice.uniform(3.0, 8.0) for rank in slow},
        cut=cut,
        slow_links=slow_links,
        hiccup=0.01,
    )
    found, _, rounds = patient.run()
    guilty = frozen | deaf | slow
    assert {rank for cell in found.bad for rank in cell.ranks} == guilty
    assert {rank for cell in found.slow for rank in cell.ranks} == slow
    assert not found.suspects
    assert names(rounds).count("pairs") <= 3
    assert (found.verdict == "hosts") == bool(guilty)


@pytest.mark.parametrize("seed", range(200))
def test_hosts_with_several_ranks_are_blamed_as_a_whole(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311
    ranks_a_host = dice.choice((2, 4, 8))
    count = dice.randint(4, 12)
    bad = set(dice.sample(range(count), dice.randint(0, max(1, count // 4))))
    one_rank = {host * ranks_a_host + dice.randrange(ranks_a_host) for host in bad}
    found, _, rounds = job(count * ranks_a_host, seed, ranks_a_host, **{dice.choice(("frozen", "deaf")): one_rank}).run()
    assert hosts(found.bad) == {f"n{host:03}" for host in bad}
    assert names(rounds)[-1] == ("rest" if bad else "confirm" if count % 2 and count > 5 else "pairs")


@pytest.mark.parametrize("count", [4, 5, 6, 7, 8])
@pytest.mark.parametrize("kind", ["frozen", "deaf"])
def test_each_single_host_of_a_small_job(count: int, kind: str) -> None:
    for bad in range(count):
        found, trials, rounds = job(count, bad, **{kind: {bad}}).run()
        assert [cell.ranks for cell in found.bad] == [(bad,)], (bad, names(rounds))
        assert not found.suspects
        assert trials[-1].round == "rest"
        assert trials[-1].outcome == "passed"
        assert bad not in trials[-1].ranks


def test_two_frozen_and_two_slow_beside_each_other() -> None:
    found, _, rounds = job(32, frozen={4, 5}, slow={8: 4.0, 9: 5.0}).run()
    assert {rank for cell in found.bad for rank in cell.ranks} == {4, 5, 8, 9}
    assert {rank for cell in found.slow for rank in cell.ranks} == {8, 9}
    assert names(rounds).count("pairs") == 1


def test_partners_of_the_guilty_are_cleared_by_name() -> None:
    found, _, _ = job(16, deaf={3, 8}).run()
    assert hosts(found.bad) == {"n003", "n008"}
    assert hosts(found.cleared) == {"n002", "n009"}


def test_who_said_nothing_is_asked_by_itself_and_costs_nobody_a_round() -> None:
    found, trials, rounds = job(16, frozen={3, 8, 9}).run()
    assert {rank for cell in found.bad for rank in cell.ranks} == {3, 8, 9}
    assert names(rounds) == ["world", "pairs", "confirm", "rest"]  # of thirteen one has no partner in the first wave
    pairs = [one for one in trials if one.round == "pairs"]
    assert sorted(one.ranks for one in pairs if one.outcome != "passed") == [(3,), (8,), (9,)]
    assert found.cleared == ()  # nobody else was ever a suspect
    assert names(job(16, frozen={3, 8}).run()[2]) == ["world", "pairs", "rest"]


def test_who_was_only_late_for_the_world_is_not_blamed() -> None:
    """Silent in the world, it answers by itself, works with a good partner, and then with everybody."""
    patient = job(16)
    rounds: list[Round] = []
    trials: list[FleetTrial] = []
    while (planned := next_round(patient.hosts, trials)) is not None:
        patient.frozen = {3} if planned.name == "world" else set()
        trials += [patient.trial(planned.name, len(rounds), group) for group in planned.groups]
        rounds.append(planned)
    found = judge(patient.hosts, trials)
    assert (found.verdict, found.bad, found.suspects, hosts(found.cleared)) == ("intermittent", (), (), {"n003"})
    assert (3,) in rounds[1].groups and len(rounds[-1].groups[0]) == 16


@pytest.mark.parametrize("count", [3, 4, 8, 32, 128])
def test_of_a_half_that_is_frozen_no_other_is_blamed(count: int) -> None:
    half = set(range(1, count, 2))
    found, _, _ = job(count, frozen=half).run()
    assert {rank for cell in found.bad for rank in cell.ranks} == half
    assert found.suspects == ()


@pytest.mark.parametrize("count", [3, 8])
def test_where_one_alone_answers_nobody_is_blamed(count: int) -> None:
    found, _, _ = job(count, frozen=set(range(1, count))).run()
    assert (found.verdict, found.bad) == ("inconclusive", ())


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("count", [3, 4, 8, 32])
def test_where_all_are_slow_none_is(count: int, seed: int) -> None:
    found, _, _ = job(count, seed, slow=dict.fromkeys(range(count), 6.0)).run()
    assert (found.verdict, found.bad, found.suspects) == ("passed", (), ())


@pytest.mark.parametrize("count", [3, 4, 5])
def test_among_few_hosts_a_busy_machine_blames_none_and_hides_no_slow_one(count: int) -> None:
    """Each has few pairs, and two of them may be held up: before a host is called slow they are tried again."""
    links = 0
    for seed in range(100):
        found, _, rounds = job(count, seed, hiccup=0.1).run()
        assert found.bad == (), (seed, names(rounds))
        links += bool(found.links)
        slow = seed % count
        found, _, rounds = job(count, seed, slow={slow: 4.0}).run()
        assert [cell.ranks for cell in found.slow] == [(slow,)], (seed, names(rounds))
    assert links <= 2  # the same pair was held up three times, and never at its pace


def test_a_pair_that_was_held_up_hides_no_slow_one() -> None:
    """Beside many suspects few good pairs are left to compare with; one of them held up once made the limit wide enough for 1.5 s."""
    patient = job(32, 297, frozen={7, 13, 26}, deaf={11, 24}, slow={2: 3.29, 22: 5.1, 28: 6.6})
    held_up = {(17, 18): 1.18, (21, 29): 0.64}
    trials: list[FleetTrial] = []
    rounds = 0
    while (planned := next_round(patient.hosts, trials)) is not None:
        wave = [patient.trial(planned.name, rounds, group) for group in planned.groups]
        trials += [replace(one, seconds=held_up[one.ranks]) if rounds == 2 and one.ranks in held_up else one for one in wave]
        rounds += 1
    assert {(17, 18), (21, 29)} <= {one.ranks for one in trials if one.wave == 2}
    assert {rank for cell in judge(patient.hosts, trials).slow for rank in cell.ranks} == {2, 22, 28}


def test_with_two_hosts_nobody_is_blamed() -> None:
    """Each may be the bad one, or the way between them."""
    for fault in ({"deaf": {1}}, {"frozen": {1}}, {"frozen": {0, 1}}):
        found, _, rounds = job(2, **fault).run()
        assert (found.verdict, found.bad) == ("inconclusive", ())
        assert names(rounds) == ["world", "control"]
    assert job(2, slow={1: 9.0}).run()[0].bad == ()


def test_of_two_hosts_with_many_ranks_the_bad_rank_is_found() -> None:
    found, _, _ = job(8, 0, 4, deaf={6}).run()
    assert found.bad == (Cell("n001", (6,)),)


def test_a_broken_way_between_two_hosts_with_many_ranks_blames_neither() -> None:
    patient = job(8, 0, 4)
    patient.cut = {(one, other) for one in range(4) for other in range(4, 8)}
    found, _, _ = patient.run()
    assert found.bad == ()
    assert found.verdict in ("links", "scale")


@pytest.mark.parametrize("one_way", [(0, 1), (1, 0), (6, 7)])
def test_a_broken_link_is_named_and_its_ends_are_not(one_way: tuple[int, int]) -> None:
    found, trials, _ = job(8, cut={one_way}).run()
    assert (found.verdict, found.bad, found.suspects) == ("links", (), ())
    (link,) = found.links
    assert {link.source, link.target} == {f"n{rank:03}" for rank in one_way}
    assert link.ok is False
    assert sum(set(one.ranks) == set(one_way) for one in trials) == 2  # not by chance: it was tried again


def test_a_slow_link_is_named_and_its_ends_are_not() -> None:
    found, _, _ = job(8, slow_links={(2, 3): 5.0}).run()
    assert (found.verdict, found.bad) == ("links", ())
    assert [(link.source, link.target, link.ok) for link in found.links] == [("n002", "n003", True)]


def test_pairs_pass_and_the_world_fails() -> None:
    found, _, rounds = job(16, scale=8).run()
    assert (found.verdict, found.bad, found.links) == ("scale", (), ())
    assert names(rounds) == ["world", "pairs", "rest", "control"]


def test_a_world_that_failed_once_is_told_from_one_that_fails() -> None:
    found, _, rounds = job(16, fails={"world": 1}).run()
    assert found.verdict == "intermittent"
    assert names(rounds) == ["world", "pairs", "rest"]


def test_everything_fails_is_no_verdict_on_anybody() -> None:
    found, _, rounds = job(16, deaf=set(range(16))).run()
    assert (found.verdict, found.bad) == ("inconclusive", ())
    assert names(rounds) == ["world", *["pairs"] * BLIND_WAVES, "control"]


def test_only_plain_sockets_work() -> None:
    found, _, _ = job(16, needs_control=True).run()
    assert (found.verdict, found.bad) == ("transport", ())


def test_a_pair_that_failed_once_is_forgotten() -> None:
    found, _, _ = job(16, fails={"world": 1, "pairs": 1}).run()
    assert (found.verdict, found.bad, found.links) == ("intermittent", (), ())
    assert hosts(found.cleared) == {"n000", "n001"}


def test_torch_that_starts_on_no_host_blames_none_and_on_one_that_one() -> None:
    everywhere = {rank: f"n{rank:03}" for rank in range(4)}
    failed = [FleetTrial("start", "", (rank,), (host,), "failed", stage="import", error="ImportError") for rank, host in everywhere.items()]
    assert judge(everywhere, failed).verdict == "inconclusive"
    one = [*failed[:1], *(FleetTrial("start", "", (rank,), (f"n{rank:03}",), "passed") for rank in (1, 2, 3))]
    planned = next_round(everywhere, one)
    assert planned == Round("world", ((1, 2, 3),))
    found = judge(everywhere, [*one, FleetTrial("world", "gloo", (1, 2, 3), ("n001", "n002", "n003"), "passed", 0.5, wave=1)])
    assert (found.verdict, hosts(found.bad)) == ("hosts", {"n000"})


@pytest.mark.parametrize("count", range(2, 14))
def test_a_tournament_pairs_every_two_once(count: int) -> None:
    waves = count - 1 + count % 2
    met = [pair for wave in range(waves) for pair in matching(count, wave)]
    assert len(met) == len(set(met)) == count * (count - 1) // 2
    assert matching(count, 0) == [(one, one + 1) for one in range(0, count - 1, 2)]
    for wave in range(waves):
        ends = [number for pair in matching(count, wave) for number in pair]
        assert len(ends) == len(set(ends))


def test_neighbours_live_on_different_hosts() -> None:
    two = {rank: "ab"[rank // 4] for rank in range(8)}
    cells = cells_of(two)
    assert all(cells[one].host != cells[other].host for one, other in matching(8, 0))
    assert [cell.ranks for cell in cells_of({rank: f"n{rank // 2}" for rank in range(8)})] == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_slow_is_what_differs_more_than_the_peers_do() -> None:
    assert slow_beyond([1.0, 1.0]) is None
    steady = slow_beyond([1.0, 1.01, 0.99, 1.0, 5.0])
    assert steady == pytest.approx(2.0)  # twice the median
    restless = slow_beyond([1.0, 2.0, 3.0, 4.0, 5.0])
    assert restless == pytest.approx(3.0 + 6 * 1.4826)
    assert slow_beyond([0.001] * 9 + [0.03]) == pytest.approx(0.051)


def test_what_the_trials_prove_stands_in_the_facts() -> None:
    patient = job(16, frozen={3}, slow={8: 6.0})
    _, trials, _ = patient.run()
    facts = united(FleetFacts(world_size=16), patient.hosts, trials)
    assert (facts.verdict, facts.verdict_backend) == ("hosts", "gloo")
    assert (facts.bad_hosts, facts.bad_ranks, facts.slow_hosts) == (("n003", "n008"), (3, 8), ("n008",))
    assert facts.cleared_hosts == ("n007",)  # 8's partner; a silent one had none
    assert united(FleetFacts(), patient.hosts, ()).verdict == "skipped"


def test_the_next_backend_goes_on_without_the_hosts_that_the_first_has_named() -> None:
    patient = job(16, frozen={3})
    _, trials, _ = patient.run()
    rest = {rank: host for rank, host in patient.hosts.items() if rank != 3}
    second = Job(rest, random.Random(1), deaf={9})  # noqa: S311
    _, more, _ = second.run()
    nccl = [
        FleetTrial(one.round, "nccl", one.ranks, one.hosts, one.outcome, one.seconds, wave=one.wave + 9, alone=one.alone) for one in more
    ]
    facts = united(FleetFacts(), patient.hosts, [*trials, *nccl])
    assert (facts.verdict, facts.verdict_backend, facts.bad_hosts) == ("hosts", "nccl", ("n003", "n009"))


@pytest.mark.parametrize("first_passes", [True, False])
def test_waves_that_prove_nothing_come_to_an_end_and_blame_nobody(first_passes: bool) -> None:
    """On machines too busy for the deadline a wave may be skipped as a whole."""
    patient = job(16)
    trials: list[FleetTrial] = []
    rounds = 0
    while (planned := next_round(patient.hosts, of_backend(trials, "gloo"))) is not None:
        for place, group in enumerate(planned.groups):
            passes = planned.name == "pairs" and first_passes and place < 4
            outcome = "passed" if passes else "timeout" if len(planned.groups) == 1 else "skipped"
            trials.append(replace(patient.trial(planned.name, rounds, group), outcome=outcome))
        rounds += 1
        assert rounds < 4 + BLIND_WAVES + CONFIRM_WAVES
    facts = united(FleetFacts(), patient.hosts, trials)
    assert (facts.bad_hosts, facts.verdict) == ((), "scale" if first_passes else "inconclusive")
