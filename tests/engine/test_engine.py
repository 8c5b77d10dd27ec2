"""Causes and consequences: who is folded into whom, and in which order findings come."""

from __future__ import annotations

from pathlib import Path

import pytest

from envcheck.engine.intents import Install, Intent, Manual, SetEnv, TorchBuild
from envcheck.engine.judge import Finding, Outcome, Verdict, command, findings, judge, standing_second
from envcheck.engine.rule import Answer, Confidence, Evidence, Facts, Hit, RuleTexts, Severity, Unknown, check
from envcheck.facts.record import replace
from envcheck.facts.snapshot import DriverFacts, Missing, Snapshot, SymptomsFacts, SystemFacts, TextEvidence, Why
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder


def texts(folder: Path, **rules: str) -> RuleTexts:
    """A folder of rule files: id (underscores for hyphens) → severity, then the ids that it explains."""
    (folder / "driver").mkdir()
    for name, line in rules.items():
        severity, *explains = line.split()
        text = f'severity = "{severity}"\nsince = "0.1"\ntitle = "t"\nmessage = "m"\nwhy = "w"\nexplains = {explains}\n'
        (folder / "driver" / f"{name.replace('_', '-')}.toml").write_text(text.replace("'", '"'))
    return RuleTexts((folder,))


def found(folder: RuleTexts, **hits: Hit) -> list[tuple[str, tuple[str, ...]]]:
    verdicts = [Verdict(name.replace("_", "-"), Outcome.HIT, hit=hit) for name, hit in hits.items()]
    return [(one.rule, one.consequences) for one in findings(verdicts, folder)]


def test_a_consequence_moves_into_its_cause(tmp_path: Path) -> None:
    folder = texts(tmp_path, z_cause="error a-victim", a_victim="error")
    assert found(folder, a_victim=Hit(), z_cause=Hit()) == [("z-cause", ("a-victim",))]


def test_causes_are_followed_through_others(tmp_path: Path) -> None:
    folder = texts(tmp_path, z_cause="error middle", middle="error a-victim", a_victim="error")
    assert found(folder, a_victim=Hit(), middle=Hit(), z_cause=Hit()) == [("z-cause", ("middle", "a-victim"))]


def test_a_guess_does_not_swallow_what_is_certain(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_cause="error b-victim", b_victim="error")
    guess = Hit(confidence=Confidence.LIKELY)
    assert found(folder, b_victim=Hit(), a_cause=guess) == [("a-cause", ()), ("b-victim", ())]
    assert found(folder, b_victim=guess, a_cause=guess) == [("a-cause", ("b-victim",))]


def test_a_note_does_not_swallow_an_error(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_cause="info b-victim", b_victim="error", c_other="warning")
    assert found(folder, b_victim=Hit(), a_cause=Hit(), c_other=Hit()) == [("a-cause", ()), ("b-victim", ()), ("c-other", ())]
    assert found(folder, b_victim=Hit(severity=Severity.INFO), a_cause=Hit()) == [("a-cause", ("b-victim",))]


def test_two_that_explain_each_other_both_stay(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_one="error b-other", b_other="error a-one")
    assert found(folder, b_other=Hit(), a_one=Hit()) == [("a-one", ()), ("b-other", ())]


def test_errors_first_then_certain_ones_then_by_name(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_note="info", b_warning="warning", c_error="error", d_error="error")
    order = found(folder, a_note=Hit(), b_warning=Hit(), d_error=Hit(), c_error=Hit(confidence=Confidence.LIKELY))
    assert [rule for rule, _ in order] == ["d-error", "c-error", "b-warning", "a-note"]


TABLES = Tables((Path(rules_folder()) / "compat",))


@check(needs="system driver", reads="system driver")
def sample(facts: Facts) -> Answer:
    if facts.driver.version == "1":
        return Unknown("undecided")
    return Hit({"os": facts.system.os}) if facts.system.os == "broken" or "gpus" in facts.absent else None


HEALTHY = Snapshot(system=SystemFacts(os="linux"), driver=DriverFacts(version="580.95.05"))


@pytest.mark.parametrize(
    ("changes", "outcome", "section"),
    [
        ({}, Outcome.OK, None),
        ({"driver": Missing(Why.FAILED, "x")}, Outcome.UNKNOWN, "driver"),
        ({"driver": Missing(Why.TIMEOUT, "x")}, Outcome.UNKNOWN, "driver"),
        ({"driver": Missing(Why.ABSENT, "x")}, Outcome.NOT_APPLICABLE, "driver"),
        ({"driver": Missing(Why.SKIPPED, "x")}, Outcome.NOT_APPLICABLE, "driver"),
        # what could not be read outweighs what is not there
        ({"system": Missing(Why.ABSENT, "x"), "driver": Missing(Why.FAILED, "x")}, Outcome.UNKNOWN, "driver"),
        # a hit stands on what was read, whatever else is missing
        ({"system": SystemFacts(os="broken"), "driver": Missing(Why.FAILED, "x")}, Outcome.HIT, None),
        ({"driver": DriverFacts(version="1")}, Outcome.UNKNOWN, None),
        # absent is known not to exist; not read is not
        ({"gpus": Missing(Why.ABSENT, "x")}, Outcome.HIT, None),
        ({"gpus": Missing(Why.SKIPPED, "x")}, Outcome.OK, None),
        ({"gpus": Missing(Why.FAILED, "x")}, Outcome.OK, None),
    ],
)
def test_a_check_names_what_it_needs(changes: dict[str, object], outcome: Outcome, section: str | None) -> None:
    [verdict] = judge(replace(HEALTHY, **changes), [sample], TABLES)
    assert (verdict.outcome, verdict.section) == (outcome, section)


@check(needs="", reads="")
def about_a_failure(facts: Facts) -> Answer:
    return Hit({"why": facts.missing["driver"].reason}) if "driver" in facts.missing else None


def test_a_check_may_be_about_what_could_not_be_read() -> None:
    [verdict] = judge(replace(HEALTHY, driver=Missing(Why.FAILED, "no answer")), [about_a_failure], TABLES)
    assert verdict.hit == Hit({"why": "no answer"})
    assert judge(HEALTHY, [about_a_failure], TABLES)[0].outcome is Outcome.OK


def test_one_that_crashes_costs_only_itself() -> None:
    @check(needs="", reads="")
    def broken(facts: Facts) -> Answer:
        raise KeyError("x")

    @check(needs="", reads="")
    def sound(facts: Facts) -> Answer:
        return Hit()

    assert [one.outcome for one in judge(Snapshot(), [broken, sound], TABLES)] == [Outcome.CRASHED, Outcome.HIT]


@pytest.mark.parametrize(
    ("line", "value", "made"),
    [
        ("kill {pid}", 42, "kill 42"),
        ("kill {pid}", None, None),
        ("kill {pid}", "", None),
        ("kill {other}", 42, None),
        ("ls {pid}", "a b; id", "ls 'a b; id'"),
        ("ls {pid}", "a\x1b[31m", None),
        ("ls {pid}", "-rf", None),  # would be read as an option
        ("{pid} x", "-rf", None),
        ("ls\t{pid}", "-rf", None),
        ("ls --name={pid}", "-rf", "ls --name=-rf"),
        ("sport = :{pid} x", 29500, "sport = :29500 x"),
        ("nothing to fill in", 42, "nothing to fill in"),
        ("chmod o-w {pid}", ["/a b", "/c"], "chmod o-w '/a b' /c"),  # of a list each is a word
        ("chmod o-w {pid}", ["/c", "-R"], None),
        ("chmod o-w {pid}", [], None),
    ],
)
def test_a_command_is_what_it_looks_like(line: str, value: object, made: str | None) -> None:
    assert command(line, {"pid": value}) == made


RULE = '''
severity = "warning"
confidence = "likely"
since = "0.1"
title = "{many} of {none}"
message = """
first {many}
second"""
messages.other = "of the variant"
why = "w"
docs = ["https://example.org"]
'''


def finding(folder: Path, fixes: str, hit: Hit) -> Finding:
    (folder / "limits").mkdir()
    (folder / "limits" / "few-files.toml").write_text(RULE + fixes)
    [made] = findings([Verdict("few-files", Outcome.HIT, hit=hit)], RuleTexts((folder,)))
    return made


def test_a_finding_takes_its_words_from_the_rule(tmp_path: Path) -> None:
    evidence = (Evidence("ulimit -n", "64"),)
    made = finding(tmp_path, "", Hit({"many": ("a", "b"), "none": None}, evidence, (TorchBuild("==2.9.*"),)))
    assert made == Finding(
        "few-files", "limits", Severity.WARNING, Confidence.LIKELY, "a, b of unknown", "first a, b second", evidence,
        (TorchBuild("==2.9.*"),), ("https://example.org",),
    )  # fmt: skip


def test_a_hit_overrules_its_rule(tmp_path: Path) -> None:
    hit = Hit({"many": 1, "none": 2}, variant="other", severity=Severity.ERROR, confidence=Confidence.CERTAIN)
    made = finding(tmp_path, "", hit)
    assert (made.severity, made.confidence, made.message) == (Severity.ERROR, Confidence.CERTAIN, "of the variant")


LEVELS = """
[variants]
other = { severity = "error", confidence = "certain" }
default = { severity = "info" }
"""


@pytest.mark.parametrize(
    ("hit", "severity", "confidence"),
    [
        (Hit(variant="other"), Severity.ERROR, Confidence.CERTAIN),
        (Hit(variant="other", severity=Severity.WARNING), Severity.WARNING, Confidence.CERTAIN),
        (Hit(variant="other", confidence=Confidence.LIKELY), Severity.ERROR, Confidence.LIKELY),
        (Hit(), Severity.INFO, Confidence.LIKELY),
    ],
)
def test_a_variant_overrules_its_rule_and_a_hit_its_variant(tmp_path: Path, hit: Hit, severity: Severity, confidence: Confidence) -> None:
    made = finding(tmp_path, LEVELS, hit)
    assert (made.severity, made.confidence) == (severity, confidence)


def test_a_guess_by_its_variant_swallows_nothing_that_is_certain(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_cause="error b-victim", b_victim="error")
    with (tmp_path / "driver" / "a-cause.toml").open("a") as file:
        file.write('messages.guess = "may be"\nvariants.guess = { confidence = "likely" }\n')
    assert found(folder, b_victim=Hit(), a_cause=Hit(variant="guess")) == [("a-cause", ()), ("b-victim", ())]


FIXES: list[tuple[str, Intent | None]] = [
    ('kind = "manual"\ntext = "close {many}"', Manual("close 3")),
    ('kind = "manual"\ntext = "t"\nwho = "admin"\ncommands = ["kill {many}", "kill {none}"]', Manual("t", "admin", ("kill 3",))),
    ('kind = "env"\nname = "N_{many}"\nvalue = "{many}"\nnote = "of {many}"', SetEnv("N_3", "3", "of 3")),
    ('kind = "env"\nname = "N"', SetEnv("N", None)),
    ('kind = "install"\nrequirements = ["a=={many}"]\nremove = ["b{many}"]', Install(("a==3",), ("b3",))),
    ('kind = "install"\nrequirements = ["a"]\nreinstall = true\nnote = "of {many}"', Install(("a",), (), True, "of 3")),
    ('kind = "torch"', TorchBuild()),
    ('kind = "torch"\nversion = "==2.9.*"', TorchBuild("==2.9.*")),
    ('kind = "torch"\nwhen = "default"', TorchBuild()),
    ('kind = "torch"\nwhen = "other"', None),
]


@pytest.mark.parametrize(("fix", "wanted"), FIXES)
def test_every_kind_of_fix(tmp_path: Path, fix: str, wanted: Intent | None) -> None:
    made = finding(tmp_path, f"[[fix]]\n{fix}\n", Hit({"many": 3, "none": None}))
    assert made.fixes == (() if wanted is None else (wanted,))


def test_a_fix_of_one_variant_only(tmp_path: Path) -> None:
    hit = Hit({"many": 3, "none": None}, variant="other")
    assert finding(tmp_path, '[[fix]]\nkind = "torch"\nwhen = "other"\n', hit).fixes == (TorchBuild(),)


def test_a_fix_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="'magic'"):
        finding(tmp_path, '[[fix]]\nkind = "magic"\n', Hit({"many": 3, "none": None}))


def test_what_a_cause_explains_pulls_it_up(tmp_path: Path) -> None:
    """A note that stands for an error, which stays on its own, comes where the error would."""
    folder = texts(tmp_path, a_first="warning", m_note="info z-error", z_error="error")
    assert found(folder, a_first=Hit(), m_note=Hit(), z_error=Hit()) == [("m-note", ()), ("z-error", ()), ("a-first", ())]


def test_the_family_nearer_to_the_cause_comes_first(tmp_path: Path) -> None:
    order = (
        "container",
        "driver",
        "visibility",
        "gpu",
        "vendor",
        "torch",
        "packages",
        "launch",
        "comm",
        "limits",
        "toolkit",
        "live",
        "meta",
    )
    ids = [f"{chr(ord('z') - at)}-of" for at in range(len(order))]
    for rule, family in zip(ids, order, strict=True):
        (tmp_path / family).mkdir()
        text = 'severity = "error"\nsince = "0.1"\ntitle = "t"\nmessage = "m"\nwhy = "w"\n'
        (tmp_path / family / f"{rule}.toml").write_text(text)
    verdicts = [Verdict(rule, Outcome.HIT, hit=Hit()) for rule in reversed(ids)]
    assert tuple(one.family for one in findings(verdicts, RuleTexts((tmp_path,)))) == order


def test_a_rank_of_the_rules_own(tmp_path: Path) -> None:
    folder = texts(tmp_path, a_usual="error", b_first="error")
    path = tmp_path / "driver" / "b-first.toml"
    path.write_text("rank = 1\n" + path.read_text())
    assert [rule for rule, _ in found(folder, a_usual=Hit(), b_first=Hit())] == ["b-first", "a-usual"]


def test_a_later_folder_wins(tmp_path: Path) -> None:
    for name, title in (("ours", "of ours"), ("site", "of the site")):
        (tmp_path / name).mkdir()
        texts(tmp_path / name, a_rule="error")
        path = tmp_path / name / "driver" / "a-rule.toml"
        path.write_text(path.read_text().replace('"t"', f'"{title}"'))
        (tmp_path / name / "no-family").mkdir()
        (tmp_path / name / "no-family" / "b-rule.toml").write_text("")
    both = RuleTexts((tmp_path / "ours", tmp_path / "nowhere", tmp_path / "site"))
    assert both.read("a-rule").title == "of the site"
    assert (both.family("a-rule"), both.family("b-rule")) == ("driver", "")


SHARED, OWN = Evidence("log", "broken pipe"), Evidence("log", "out of memory")


@pytest.mark.parametrize(
    ("evidence", "first", "second"),
    [
        ((SHARED,), Hit(evidence=(SHARED,)), True),
        ((SHARED, OWN), Hit(evidence=(SHARED,)), False),  # it has a message of its own
        ((SHARED,), None, False),  # the rule that the message names first does not hit
        ((), Hit(evidence=(SHARED,)), False),  # it hits on facts
    ],
)
def test_a_rule_stands_second_on_messages_alone_that_name_another_one_first(
    evidence: tuple[Evidence, ...], first: Hit | None, second: bool
) -> None:
    rows = [
        TextEvidence(SHARED.source, SHARED.text, "cause"),
        TextEvidence(SHARED.source, SHARED.text, "victim", second=True),
        TextEvidence(OWN.source, OWN.text, "victim"),
    ]
    verdicts = [
        Verdict("victim", Outcome.HIT, hit=Hit(evidence=evidence)),
        Verdict("cause", Outcome.HIT if first else Outcome.OK, hit=first),
    ]
    assert standing_second(verdicts, rows) == ({"victim"} if second else set())


@pytest.mark.parametrize(
    ("rows", "hit", "confidence"),
    [
        (("likely",), Hit(evidence=(SHARED,)), Confidence.LIKELY),
        (("likely", ""), Hit(evidence=(SHARED,)), None),  # another row of the same line proves it
        (("",), Hit(evidence=(SHARED,)), None),
        (("likely",), Hit(evidence=(SHARED, OWN)), None),  # the check read something else as well
        (("likely",), Hit(), None),  # it stands on facts
        (("likely",), Hit(evidence=(SHARED,), confidence=Confidence.CERTAIN), Confidence.CERTAIN),  # and says so
    ],
)
def test_a_hit_on_lines_that_prove_nothing_by_themselves_is_a_guess(rows: tuple[str, ...], hit: Hit, confidence: Confidence | None) -> None:
    @check(needs="", reads="")
    def one_rule(facts: Facts) -> Answer:
        return hit

    said = tuple(TextEvidence(SHARED.source, SHARED.text, "one-rule", confidence=one) for one in rows)
    [verdict] = judge(Snapshot(symptoms=SymptomsFacts(said)), [one_rule], TABLES)
    assert verdict.hit is not None and verdict.hit.confidence is confidence


def test_rules_of_a_site_are_those_that_ours_has_not(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("ours", "site", "team"))
    for folder, rules in ((one, ("a", "b")), (two, ("b", "c")), (three, ("d",))):
        (folder / "driver").mkdir(parents=True)
        for name in rules:
            (folder / "driver" / f"{name}.toml").write_text(RULE)
    assert RuleTexts((one,)).of_site == ()
    assert RuleTexts((one, two)).of_site == ("c",)
    assert sorted(RuleTexts((one, two, three)).of_site) == ["c", "d"]
