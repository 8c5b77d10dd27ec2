"""The table of messages: every row is its own sample, names no other rule's, and takes time that grows with the text alone."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from expressions import repeats_of
from hypothesis import given
from hypothesis import strategies as st

from envcheck.checks import all_checks
from envcheck.collect import settle
from envcheck.facts.printable import begin_of
from envcheck.facts.snapshot import Arm, DevicesFacts, LiveFacts, LiveStatus, RankFacts, Snapshot, SymptomsFacts
from envcheck.read.clean import words_in
from envcheck.read.found import LINE_LIMIT, kept
from envcheck.report.session import rule_session
from envcheck.symptoms.scan import CHUNK, WINDOW_AFTER, WINDOW_BEFORE, Message, Scanner, SymptomTable, _parts, condense, with_anchors
from envcheck.symptoms.template import SAMPLES, TYPES, Hole, anchors, expression, parts_of, sample_of
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import as_json, load_toml

TABLE = SymptomTable((rules_folder(),))
RULES = {check.id for check in all_checks()}
LINES = load_toml(Path(__file__).parents[1] / "symptom_lines.toml")
ROWS: dict[str, list[Message]] = {}
for _row in TABLE.messages:
    ROWS.setdefault(_row.id, []).append(_row)


def scan(*texts: str, met: tuple[str, ...] = (), stated: bool = False) -> Scanner:
    scanner = Scanner(TABLE)
    scanner.met.update(met)
    for text in texts:
        scanner.scan(text, "log", stated=stated)
    return scanner


def regexes(row: Message) -> list[str]:
    return [part.regex for part in parts_of(row.text) if isinstance(part, Hole) and part.regex]


def own_words(row: Message) -> str:
    """The message as a program prints it."""
    return row.sample or sample_of(parts_of(row.text))


def told(row: Message, text: str) -> tuple[set[str], set[str]]:
    """The symptoms that a text shows, and the rules that they name."""
    found = scan(text, met=tuple(row.data.get("needs", ())[:1]), stated=row.stated).finish()
    symptoms = {match.symptom for match in found.matches} | {one.entry for one in (*found.victims, *found.harmless)}
    return symptoms, {match.rule for match in found.matches}


ALONE = {rule for row in TABLE.messages if row.alone for rule in row.rules}


def beside(row: Message) -> set[str]:
    """A victim's last words may be all that a text says: then a row that counts alone speaks of them too."""
    return ALONE if row.kind != "symptom" else set()


EVERY = [row for rows in ROWS.values() for row in rows]


def test_each_row_is_a_sample_of_its_own_symptom_and_of_no_other_rule() -> None:
    for row in EVERY:
        assert bool(row.sample) is bool(regexes(row)), f"{row.text}: a regular expression has a sample, any other row is its own"
        symptoms, rules = told(row, own_words(row))
        assert row.id in symptoms, row.text
        assert rules <= set(row.rules) | beside(row), row.text


def test_each_row_knows_its_own_words() -> None:
    """A row that another of its symptom makes idle is seen as well: its template alone."""
    for row in EVERY:
        text = " ".join(own_words(row).split())
        assert row.pattern.search(re.sub('["`]', "'", text)), row.text
        assert any(anchor.piece in text for anchor in row.anchors), row.text


def test_lines_that_programs_printed_name_the_rule_that_they_named() -> None:
    for symptom, lines in LINES.items():
        row = ROWS[symptom][0]
        for line in lines:
            symptoms, rules = told(row, line)
            assert symptom in symptoms, line
            assert rules <= set(row.rules) | beside(row), line


def test_expressions_are_the_exception() -> None:
    free = [row.text for row in TABLE.messages if regexes(row)]
    assert len(free) < 0.08 * len(TABLE.messages), len(free)


def test_symptoms_are_complete() -> None:
    for rows in ROWS.values():
        assert len({row.text for row in rows}) == len(rows)
    for row in EVERY:
        data = row.data
        assert data["source"].startswith("https://"), row.text
        assert set(row.rules) <= RULES, row.text
        assert set(data) <= {
            "id",
            "rule",
            "also",
            "needs",
            "unless",
            "stated",
            "source",
            "messages",
            "variant",
            "confidence",
            "ask",
            "why",
            "fallback",
            "alone",
            "ends",
        }
        assert row.confidence in ("", "likely", "certain")
        assert row.kind != "victim" or data["ask"], row.text
        assert row.kind != "harmless" or data["why"], row.text
        assert all(len(anchor.piece) >= 3 for anchor in row.anchors), row.text


def test_the_index_leaves_few_rows_to_try_everywhere() -> None:
    assert sum(isinstance(row, Message) for _, row, _ in TABLE.index[""]) < 0.02 * len(TABLE.messages)
    assert max(len(rows) for word, rows in TABLE.index.items() if word) < 0.05 * len(TABLE.messages)


def test_one_id_stands_for_one_symptom() -> None:
    seen = [
        symptom["id"]
        for path in (Path(rules_folder()) / "symptoms").glob("*.toml")
        for rows in load_toml(path).values()
        for symptom in rows
    ]
    assert len(seen) == len(set(seen)) and set(LINES) <= set(seen)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ('id = "ours"', r"site\.toml: ours has no messages"),
        ('id = "ours"\nrule = "gpu-lost"\nalso = [{ name = "gpu-xid" }]\nmessages = ["a"]', "also: name is no key of a rule"),
        ('id = "ours"\nrule = "gpu-lost"\nalso = [{ variant = "x" }]\nmessages = ["a"]', "also: a rule is not named"),
        ('id = "ours"\nmessages = ["a {thing} here"]', "thing is no type of a hole"),
        ('id = "ours"\nmessages = ["a } here"]', "a brace that opens no hole is written twice"),
        ('id = "ours"\nmessages = [{ text = "a", pattern = "b" }]', "pattern is no key of a message"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(tmp_path: Path, body: str, error: str) -> None:
    (tmp_path / "symptoms").mkdir()
    (tmp_path / "symptoms" / "site.toml").write_text(f"[[symptom]]\n{body}\n")
    with pytest.raises(ValueError, match=error):
        _ = [anchor for row in SymptomTable((tmp_path,)).messages for anchor in row.anchors]


# ------------------------------------------------------------------ templates


def values(template: str, text: str) -> dict[str, str] | None:
    match = re.search(expression(parts_of(template)), text)
    return None if match is None else match.groupdict()


@pytest.mark.parametrize(
    ("template", "text", "found"),
    [
        ("port {port:int} is taken", "port 29500 is taken", {"port": "29500"}),
        ("port {port:int} is taken", "port x is taken", None),
        ("torch {have:version}, expected", "torch 2.4.0+cu121, expected", {"have": "2.4.0+cu121"}),
        ("built for {have:version}", "built for 11.8. Please", {"have": "11.8"}),
        ("load {library:path}: no such", "load /opt/lib/x.so.1: no such", {"library": "/opt/lib/x.so.1"}),
        ("peer {peer:word} failed", "peer 10.0.0.1<4000> failed", {"peer": "10.0.0.1<4000>"}),
        ("connect to {peer:word}", "connect to 10.0.0.1:29500.", {"peer": "10.0.0.1:29500"}),
        ("failed: {reason:words}", "failed: No route to host, bye", {"reason": "No route to host"}),
        ("not in '{needs:any}'", "not in '>=3.9' of x", {"needs": ">=3.9"}),
        ("named '{name:name}'", "named torch now", {"name": "torch"}),
        ("named 'torch'", "named torch", {}),
        ("named 'torch'", "named 'torch'", {}),
        ("named 'torch'", "named torchvision", None),
        ("named 'torch'", "named torch.cuda", None),
        ("can't open", "cant open", {}),
        ("rank {=is|was} {end:=dead|dead and gone}", "rank was dead and gone", {"end": "dead and gone"}),
        ("{library:=libcudnn*.so**}: gone", "/x/libcudnn_ops.so.9: gone", {"library": "libcudnn_ops.so.9"}),
        ("error {{{code:int}}}", "error {7}", {"code": "7"}),
        ("signal {/9\\b(?! \\()/}", "signal 9 (KILL)", None),
        ("rank number", "local_rank number", {}),
        ("rank number", "frank number", None),
        ("the rank is gone", "The rank is gone", {}),
        ("Killed", "killed", None),
    ],
)
def test_templates(template: str, text: str, found: dict[str, str] | None) -> None:
    assert values(template, text) == found


def test_every_type_of_a_hole_knows_its_sample() -> None:
    assert set(SAMPLES) == set(TYPES)
    for name in TYPES:
        assert values(f"here {{x:{name}}} there", f"here {SAMPLES[name]} there") == {"x": SAMPLES[name]}


def test_where_a_row_is_looked_for() -> None:
    [anchor] = anchors(parts_of("Failed to connect to '{peer:word}' at port {port:int}"))
    assert anchor.piece == "ailed to connect to"
    assert set(anchor.words) == {"failed to", "to connect", "connect to", "at port"}
    both = anchors(parts_of("{word}: {=Connection refused|No route to host}"))
    assert {one.piece for one in both} == {": Connection refused", ": No route to host"}
    assert anchors(parts_of("lib{name}.so: cannot open"))[0].words == ("cannot open", "so cannot")
    assert anchors(parts_of("can't {word} memory at{word}"))[0].words == ("memory",)


@pytest.mark.parametrize("name", TYPES)
def test_a_type_of_a_hole_is_linear(name: str) -> None:
    assert list(slow(TYPES[name])) == []


def slow(source: str) -> list[str]:
    """What makes an expression more than linear: a repeat without bound, or one inside another."""
    repeats = list(repeats_of(source))
    endless = [f"{kind} without a bound" for kind, most, _ in repeats if most > 2000]
    return endless + [f"{kind} inside a repeat" for kind, most, around in repeats if most > 1 and any(outer > 3 for outer in around)]


def test_expressions_within_rows_are_linear() -> None:
    assert not [(row.text, why) for row in TABLE.messages for one in regexes(row) for why in slow(one)]


LENGTH = 3000  # characters: what takes the square of it takes a second


def adversarial(row: Message) -> list[str]:
    """Texts that begin like a match over and over."""
    text = own_words(row)
    long = [(text[:cut] + " ") * (LENGTH // max(cut, 1)) for cut in (len(text) // 2, len(text) - 1)]
    long.append(text[: len(text) // 3] + text[len(text) // 3] * LENGTH)
    piece = row.anchors[0].piece
    return [
        *long,
        f"{piece} " * (LENGTH // len(piece)),
        piece + "a" * LENGTH + piece,
        f"{piece}{'(' * 30}\n" * (LENGTH // (len(piece) + 31)),
    ]


def seconds_of(function: Callable[[], object]) -> float:
    began = time.process_time()
    function()
    return time.process_time() - began


def test_adversarial_text_costs_little() -> None:
    """Against what a plain loop takes at that time: how fast the machine is, and what else runs on it, does not count."""
    gc.collect()
    gc.disable()  # a collection of all that thousands of tests have left takes as long as this is allowed to
    try:
        for row in EVERY:
            table = SymptomTable(())
            table.__dict__["messages"] = (row,)
            for text in adversarial(row):
                one = partial(search, table, text, row.stated)
                if seconds_of(one) > 0.05:
                    took = min(seconds_of(one) for _ in range(3))
                    assert took < 10 * min(seconds_of(partial(sum, range(1_000_000))) for _ in range(3)), (row.text, text[:80])
    finally:
        gc.enable()


def search(table: SymptomTable, text: str, stated: bool) -> None:
    Scanner(table).scan(text, "log", stated=stated)


@pytest.mark.parametrize(
    ("first", "second", "rules"),
    [
        (
            "node1:12:34 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5 - Init COMPLETE",
            "psql: error: connection to server failed: No route to host",
            set(),
        ),
        ("node1:12:34 [0] NCCL INFO Connected all rings", "java.io.IOException: Too many open files", set()),
        ("[rank0] NCCL WARN the group is slow", "nginx[811]: accept4() failed (24: Too many open files)", set()),
        # what a terminal has wrapped
        ("RuntimeError: DataLoader worker (pid 12) could not go on with its batch:", "Too many open files", {"open-files-low"}),
        ("NCCL WARN Connect to 10.0.0.2<41234> failed in socketStartConnect :", "No route to host", {"launch-unreachable"}),
    ],
)
def test_two_messages_are_not_put_together(first: str, second: str, rules: set[str]) -> None:
    long = "a line that is longer than either, so that nobody takes the first for one that a screen has cut " * 2
    found = {match.rule for match in scan(f"{first}\n{second}\n{long}\n").finish().matches}
    assert found & {"open-files-low", "launch-unreachable"} == rules


# ------------------------------------------------------------------ texts


@given(st.text(max_size=400))
def test_any_text_scans(text: str) -> None:
    assert scan(text).finish() is not None


def test_values_of_groups_with_a_number_share_a_name() -> None:
    found = scan("The server socket has failed to listen. port: 29777, useIpv6: false, code: -98, name: EADDRINUSE, message: x").finish()
    assert {match.values.get("port") for match in found.matches} == {"29777"}


def test_a_message_over_several_lines() -> None:
    found = scan(
        "    The detected CUDA version (12.2) mismatches the version that was used to compile\n    PyTorch (11.3). Please\n"
    ).finish()
    assert {match.rule for match in found.matches} == {"nvcc-major-mismatch", "cuda-versions-differ"}
    assert found.matches[0].values == {"nvcc": "12.2", "torch_cuda": "11.3"}


def test_a_message_that_began_on_the_line_before() -> None:
    found = scan(
        "ImportError: /x/audio/_torch_sox.cpython-36m-x86_64-linux-gnu.so:\nundefined symbol: _ZN2at19NonVariableTypeMode10is_enabledEv\n"
    ).finish()
    assert "torch-companion-mismatch" in {match.rule for match in found.matches}


def test_needs_and_unless_look_at_all_texts() -> None:
    failure = "RuntimeError: CUDA error: unspecified launch failure"
    assert all(match.rule != "nvidia-uvm-missing" for match in scan(failure).finish().matches)
    assert [match.rule for match in scan(failure, "PM: suspend exit").finish().matches] == ["nvidia-uvm-missing"]
    missing = "ModuleNotFoundError: No module named 'torch'"
    assert [(match.rule, match.variant) for match in scan(missing).finish().matches] == [("torch-missing", "")]
    built = scan(missing, "Getting requirements to build wheel did not run successfully").finish().matches
    assert [(match.rule, match.variant) for match in built] == [("torch-missing", "isolated")]


def rows_of(tmp_path: Path, body: str) -> SymptomTable:
    (tmp_path / "symptoms").mkdir()
    (tmp_path / "symptoms" / "site.toml").write_text(body)
    return SymptomTable((tmp_path,))


BOTH = """
[[symptom]]
id = "inside"
rule = "gpu-lost"
needs = ["kubelet"]
messages = ["the GPU went away"]

[[symptom]]
id = "outside"
rule = "gpu-lost"
unless = ["kubelet"]
variant = "plain"
messages = ["the GPU went away"]
"""


@pytest.mark.parametrize(("beside", "symptom"), [("", "outside"), ("kubelet", "inside")])
def test_of_two_symptoms_with_the_same_words_the_one_whose_condition_holds_is_heard(tmp_path: Path, beside: str, symptom: str) -> None:
    scanner = Scanner(rows_of(tmp_path, BOTH))
    scanner.scan(f"the GPU went away\n{beside}\n", "log")
    assert [match.symptom for match in scanner.finish().matches] == [symptom]


def test_of_two_symptoms_with_the_same_words_that_both_hold_the_first_keeps_the_line(tmp_path: Path) -> None:
    scanner = Scanner(rows_of(tmp_path, BOTH.replace('unless = ["kubelet"]\n', "")))
    scanner.scan("the GPU went away\nkubelet\n", "log")
    assert [match.symptom for match in scanner.finish().matches] == ["inside"]


def test_each_further_rule_has_its_own_variant_or_that_of_the_row(tmp_path: Path) -> None:
    also = '["gpu-xid", { rule = "wsl-driver", variant = "nccl", confidence = "likely" }, { rule = "gpu-busy", confidence = "certain" }]'
    body = f'[[symptom]]\nid = "ours"\nrule = "gpu-lost"\nalso = {also}\nvariant = "mine"\nmessages = ["the GPU went away"]\n'
    scanner = Scanner(rows_of(tmp_path, body))
    scanner.scan("the GPU went away\n", "log")
    told = [(match.rule, match.variant, match.confidence, match.second) for match in scanner.finish().matches]
    assert told == [
        ("gpu-lost", "mine", "", False),
        ("gpu-xid", "mine", "", True),
        ("wsl-driver", "nccl", "likely", True),
        ("gpu-busy", "mine", "certain", True),
    ]


def test_a_variant_of_a_further_rule_is_one_of_its_messages() -> None:
    """A misspelt one would be heard by nobody."""
    texts = rule_session().texts
    own = [(row.id, one) for row in TABLE.messages if row.kind == "symptom" for one in row.data.get("also", ()) if isinstance(one, dict)]
    assert own and [(symptom, one) for symptom, one in own if one.get("variant", "") not in texts.read(one["rule"]).messages] == []


def test_harmless_lines_count_for_no_rule() -> None:
    found = scan(
        "[W socket.cpp:558] [c10d] The client socket cannot be initialized to connect to [localhost]:29500 (errno: 97 - Address family not supported by protocol)."  # noqa: E501
    ).finish()
    assert not found.matches
    assert [one.entry for one in found.harmless] == ["errno-97"]


def test_victims_name_no_rule_and_say_where_to_look() -> None:
    found = scan("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\ntrain.py FAILED\n").finish()
    assert not found.matches
    assert "--log-dir" in found.victims[0].advice


def test_observations_are_matched_only_as_such() -> None:
    line = "fabric_state_completed = false"
    assert not scan(line).finish().matches
    assert [match.rule for match in scan(line, stated=True).finish().matches] == ["fabric-not-ready"]


def test_matches_of_one_entry_are_few() -> None:
    text = "".join(
        f"node{n}: NCCL WARN Duplicate GPU detected : rank {n} and rank {n + 1} both on CUDA device 1{n}00\n" for n in range(500)
    )
    assert len(scan(text).finish().matches) <= 4


def test_condense_keeps_new_lines_and_what_follows_them() -> None:
    log = (
        "".join(f"step {n} loss 0.{n}\n" for n in range(1000))
        + "Traceback\n  one\n  two\n"
        + "".join(f"step {n} loss 0.{n}\n" for n in range(1000))
    )
    kept = condense(log).split("\n")
    assert len(kept) < 20
    assert "Traceback" in kept and "  two" in kept


def test_a_symptom_deep_in_a_long_log_is_found() -> None:
    noise = "".join(f"2026-11-27 step {n} loss 0.{n}\n" for n in range(30000))
    found = scan(noise + "RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + noise).finish()
    assert [match.rule for match in found.matches] == ["gpu-ecc-error"]


def reads(text: str) -> float:
    """How often the words of a text could be looked for while it is scanned: a ratio, for the machine is as fast as it is."""
    scanner = Scanner(TABLE)
    took = []
    for work in (lambda: re.findall(r"\w+", text.lower()), lambda: scanner.scan(text, "log")):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return took[1] / took[0]


def test_long_logs_scan_in_time() -> None:
    """A row that is tried at each line costs hundreds of readings."""
    text = "".join(
        f"node{n % 16}:{n}:{n + 7} [{n % 8}] NCCL INFO Channel {n % 32:02d}/0 : {n % 8}[{n % 8}] via P2P/CUMEM\n" for n in range(14000)
    )
    assert len(text) > 900_000
    assert reads(text) < 25


def test_lines_that_repeat_nothing_scan_in_time() -> None:
    """Every line is new, and holds words of the table."""
    words = sorted({word for row in TABLE.messages for word in row.text.split() if word.isalpha()})
    size = len(words)
    letters = str.maketrans("0123456789", "qwertyuiop")
    lines = (f"{words[n % size]} {str(n * 7919).translate(letters)} {words[n * 31 % size]} {words[n * 17 % size]}\n" for n in range(26_000))
    text = "".join(lines)
    assert len(text) > 600_000
    assert reads(text) < 60


def test_a_line_without_end_is_cut_into_parts_of_bounded_size() -> None:
    """A progress bar or a dump of 30 MB on one line: with all of it before each part the time would grow with its square."""
    languages = TABLE.languages
    sizes = [len(part.text) for part in _parts("x" * (40 * CHUNK), "log", False, languages)]
    assert len(sizes) == 40 and max(sizes) <= WINDOW_BEFORE + 2 * CHUNK + WINDOW_AFTER


@pytest.mark.parametrize("lines", [0, 1, 3])
def test_a_message_at_the_seam_of_two_parts_is_found_once(lines: int) -> None:
    message = "The detected CUDA version (12.2) mismatches the version that was used to compile\nPyTorch (11.3). Please\n"
    for shift in range(-200, 40, 13):
        noise = "x" * (CHUNK - 60 * lines + shift - 1) + "\n" + "y\n" * lines
        found = scan(noise + message + noise).finish()
        assert [match.values for match in found.matches if match.rule == "nvcc-major-mismatch"] == [{"nvcc": "12.2", "torch_cuda": "11.3"}]


def test_the_row_that_matched_is_told() -> None:
    [match] = scan("docker: Error: stat nvidia.com/gpu=all: no such file").finish().matches
    assert match.message == "Error: stat {device:=nvidia.com/gpu=**}: no such file"


def test_an_error_far_from_a_line_that_means_no_harm_counts() -> None:
    harmless = "[c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family not supported by protocol).\n"
    noise = "".join(f"step {'abcdefghij'[n % 10]} {n}\n" for n in range(4000))
    assert not scan(harmless + noise).complains
    assert scan(harmless + noise + "ValueError: ours\n").complains
    assert scan("ValueError: ours\n" + noise + harmless).complains


FORKED = "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the 'spawn' start method"
ORDINAL = "CUDA error: invalid device ordinal"


@pytest.mark.parametrize(("words", "rule"), [(FORKED, "launch-fork-after-cuda"), (ORDINAL, "visible-devices-out-of-range")])
def test_what_our_own_probes_print_is_no_fault_of_a_program(words: str, rule: str) -> None:
    """The same words are a finding where a program has printed them."""
    ours = settle(Snapshot(devices=DevicesFacts(available=False, error=words)), rule_session())
    assert not isinstance(ours.symptoms, SymptomsFacts) or not ours.symptoms.matches
    told = Scanner(TABLE)
    told.scan(f"RuntimeError: {words}", "train.log")
    assert [match.rule for match in told.finish().matches] == [rule]


@pytest.mark.parametrize("signal", ["SIGSEGV", None])
def test_a_rank_whose_peer_was_killed_says_nothing_of_the_way_there(signal: str | None) -> None:
    """Where both live, its words are what is known."""
    peer = RankFacts(0, error="RuntimeError: Gloo connectFullMesh failed with [pair.cc:144] no error")
    dead = RankFacts(1, error=f"died with {signal} in the stage ddp" if signal else "", signal=signal)
    arm = Arm("gloo-as-is", "gloo", "cpu", 2, LiveStatus.FAIL, ranks=(peer, dead))
    found = settle(Snapshot(live=LiveFacts(LiveStatus.FAIL, arms=(arm,))), rule_session()).symptoms
    matches = found.matches if isinstance(found, SymptomsFacts) else ()
    assert [match.rule for match in matches] == ([] if signal else ["gloo-interface"])


OF_OTHERS = (
    "MaxRetryError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded (Caused by NewConnectionError("
    "'<urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno 101] Network is unreachable'))\")",
    "Cannot connect to host huggingface.co:443 ssl:default [Network is unreachable]",
    "fatal: unable to access 'https://github.com/a/b/': Failed to connect to github.com port 443 after 3 ms: No route to host",
    "E: Cannot initiate the connection to archive.ubuntu.com:80 (2620::1). - connect (101: Network is unreachable)",
    "redis.exceptions.ConnectionError: Error 113 connecting to 10.0.0.3:6379. No route to host.",
    'psycopg2.OperationalError: connection to server at "db" (10.0.0.3), port 5432 failed: No route to host',
    "urllib3.exceptions.NameResolutionError: socket.gaierror: [Errno -2] Name or service not known",
)


@pytest.mark.parametrize("line", OF_OTHERS)
def test_a_web_client_that_reaches_nobody_says_nothing_of_ranks(line: str) -> None:
    assert not scan(line).finish().matches


def test_a_compilers_command_may_be_long() -> None:
    folders = ", ".join(f"'-L/opt/venv/lib/python3.10/site-packages/nvidia/package_{number}/lib'" for number in range(14))
    command = f"Command '['/usr/bin/gcc', '/tmp/tmpbe9ryx74/cuda_utils.c', '-O3', {folders}]' returned non-zero exit status 1."
    assert len(command) > 1000
    assert [match.symptom for match in scan(f"CalledProcessError: {command}").finish().matches] == ["triton-gcc-failed"]


# ------------------------------------------------------------------ wheel


def test_a_wheel_has_the_same_rows_in_the_same_order_with_the_same_anchors(tmp_path: Path) -> None:
    """They are worked out when the wheel is built; a checkout does it itself."""
    (tmp_path / "symptoms").mkdir()
    for path in (Path(rules_folder()) / "symptoms").glob("*.toml"):
        text = as_json(path.read_text(encoding="utf-8"), with_anchors)
        (tmp_path / "symptoms" / f"{path.stem}.json").write_text(text, encoding="utf-8")
    shipped = SymptomTable((tmp_path,))
    assert all(row.shipped for row in shipped.messages) and not any(row.shipped for row in TABLE.messages)

    def told(row: Message) -> tuple[object, ...]:
        return row.kind, row.id, row.text, row.variant, row.confidence, row.sample, row.rules, row.anchors

    assert [told(row) for row in shipped.messages] == [told(row) for row in TABLE.messages]
    assert shipped.index.keys() == TABLE.index.keys()


def test_anchors_that_somebody_wrote_are_refused(tmp_path: Path) -> None:
    (tmp_path / "symptoms").mkdir()
    (tmp_path / "symptoms" / "site.toml").write_text('[[symptom]]\nid = "ours"\nmessages = [{ text = "a", anchors = [["b", []]] }]\n')
    with pytest.raises(ValueError, match="anchors is no key of a message"):
        _ = SymptomTable((tmp_path,)).messages


def test_a_word_pair_counts_over_the_end_of_a_line_and_in_any_case() -> None:
    [anchor] = anchors(parts_of("failed to bind {address:word} of the NIC"))
    assert set(anchor.words) == {"failed to", "to bind", "of the", "the nic"}
    row = Message("symptom", "ours", "failed to bind {address:word} of the NIC", {"rule": "ours"})
    table = SymptomTable(())
    table.__dict__["messages"] = (row,)
    assert [one.words for _, _, one in table.index["failed", "to"]] == [anchor.words]
    for text, found in (("failed\nto bind x of\nthe NIC", True), ("to bind x of the NIC, failed", False)):
        assert bool(list(table.possible(words_in(text)))) is found


IMAGE = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
LONG = "Kq7ZtPw2xLm9VbN4cRy8HsD3fGj6TaEuWoQi1XkMzBvCn5JpYhS0dUlF"


@pytest.mark.parametrize(
    "line",
    [
        f"https://user:{LONG}@host/x {IMAGE}",
        f"https://b.s3.amazonaws.com/k?X-Amz-Signature={LONG} {IMAGE}",
        f'password="correct horse {"battery staple " * 8}{LONG[-20:]}" {IMAGE}',
        f"set -gx WANDB_API_KEY {LONG.lower()} {IMAGE}",
        f"{'x ' * 20000}password: {LONG} {IMAGE}",
        f"{'a b ' * 90}https://user:{LONG}@host {IMAGE}",
        f"https://u:{IMAGE}@h/x\n{IMAGE} https://user:{LONG * 3}@host/x",
        f"ImportError: cannot import name 'x' from 'https://user:{LONG}@host/x'\npassword: {LONG}\n{IMAGE}",
    ],
)
def test_a_quotation_is_cut_out_of_a_text_without_its_secrets(line: str) -> None:
    """What tells a secret may stand before the quotation, and behind it."""
    matches = scan(line).finish().matches
    assert matches
    assert not any(LONG[-12:].lower() in f"{one.text} {one.values}".lower() for one in matches)


def test_evidence_is_masked_before_it_is_cut() -> None:
    line = f"{'x' * 380} https://user:{LONG}@host/x"
    assert LONG[:6] not in kept(line) and len(kept(line)) == LINE_LIMIT and kept("x") == "x"
    assert LONG[:6] not in begin_of(f"token is {'z ' * 150}password={LONG}", 315)
