"""What is fuzzed: functions of bytes that read what strangers write. Each returns, or raises what its caller tells the user in a line.

Nothing here needs the fuzzer: `tests/fuzz` gives the corpus to the same functions.
"""

from __future__ import annotations

import copy
import functools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from envcheck.collect import settle, steps
from envcheck.commands import configuration
from envcheck.commands.diagnose import diagnose_output
from envcheck.errors import UsageError
from envcheck.facts import codec, cuda_visible_devices, recorded, secrets
from envcheck.facts.printable import visible
from envcheck.facts.snapshot import Gpu, Snapshot
from envcheck.options import command_parser
from envcheck.planner.profile import Profile
from envcheck.planner.wish import read_wish, together
from envcheck.planner.wish_files import read_entries
from envcheck.read import identify, job_script, kernel, launch_commands, nvcc, observations, own_reports, rocm_smi, smi, smi_query
from envcheck.read.clean import clean, encoding, what_binary
from envcheck.read.wish_kinds import read_wish_file
from envcheck.render import render
from envcheck.report.session import RuleSession, report_on, rule_session
from envcheck.tables import toml, versions
from envcheck.target import process
from envcheck.target.interpreter import Target
from envcheck.target.sections import sections

HERE = Path(__file__).parent
DOCUMENTS = HERE.parent / "tests" / "documents" / "v1"
FORMATS = ("text", "json", "markdown", "junit", "github", "sarif", "html", "termination")
# Values of a type that nobody expects where they stand.
WRONG: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, 10**400, -(10**30), float("nan"), math.inf, 1e300, "", "x", "0", "\ud800", "\x1b]0;x\x07", "a" * 5000,
    "9" * 5000, [], {}, [1], [None], [{}], [[[[]]]], {"a": 1}, {"missing": "absent"}, {"missing": "failed", "reason": 1},
)  # fmt: skip


class Chooser:
    """Bytes as choices: the same bytes always choose the same."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, below: int) -> int:
        size = 1 if below <= 256 else 2
        piece, self.at = self.data[self.at : self.at + size], self.at + size
        return int.from_bytes(piece, "big") % below

    def one(self, of: Any) -> Any:
        return of[self.number(len(of))]

    def rest(self) -> str:
        return self.data[self.at :].decode("utf-8", "surrogateescape")

    def value(self) -> Any:
        """Something wrong, or what is left as a text or as JSON."""
        which = self.number(len(WRONG) + 2)
        if which < len(WRONG):
            return WRONG[which]
        try:
            return self.rest() if which == len(WRONG) else json.loads(self.rest())
        except (ValueError, RecursionError):
            return self.rest()


def text_of(data: bytes) -> str:
    return clean(data.decode(encoding(data), "replace"))


@functools.cache
def session() -> RuleSession:
    return rule_session()


# ------------------------------------------------------------------ other people's texts


def readers(data: bytes) -> None:
    if what_binary(data):
        return
    text = text_of(data)
    for found in identify.read_text(text):
        for fact in found.facts:
            assert fact.path and fact.number >= 0


def diagnosed(data: bytes) -> None:
    """A text from a stranger all the way to a report."""
    if not what_binary(data):
        report, _ = diagnose_output((("log.txt", data.decode(encoding(data), "replace")),), None, session())
        render(report, FORMATS[(data[-1] if data else 0) % len(FORMATS)]).encode()


def parsers(data: bytes) -> None:
    """The parsers of single programs, which probes give what they print."""
    text = text_of(data)
    for parse in (smi.read_smi, smi.read_failure, nvcc.read_nvcc, nvcc.read_tool_version, rocm_smi.read_rocm_smi, kernel.read_xids,
                  kernel.read_module_version, kernel.read_complaints, smi_query.find, job_script.read_started):  # fmt: skip
        parse(text)


def launches(data: bytes) -> None:
    text = text_of(data)
    launch_commands.read_commands(text)
    for line in launch_commands.logical_lines(text):
        launch_commands.split(line.text)


def own_documents(data: bytes) -> None:
    """Reports of our own, of which anybody may have written the one at hand."""
    rules = frozenset(one.id for one in session().every_check)
    text, _ = own_reports.take_documents(data.decode("utf-8", "replace"), rules)
    own_reports.take_pages(clean(text), rules)


def stated(data: bytes) -> None:
    """Observations, TOML or JSON."""
    text = data.decode("utf-8", "replace")
    try:
        values = json.loads(text) if text[:1] == "{" else toml.parse_toml(text)
    except (ValueError, RecursionError):
        return
    if isinstance(values, dict):
        observations.read_observations(values)
        try:
            observations.as_lines(values)
        except RecursionError:  # its caller refuses the file: "nested too deeply"
            return


def printed(data: bytes) -> None:
    """What stands between a text and a terminal: masked once is masked for good, and nothing moves the cursor."""
    text = data.decode("utf-8", "replace")
    once = secrets.mask_secrets(text)
    assert secrets.mask_secrets(once) == once, (once, secrets.mask_secrets(once))
    shown = visible(text)
    assert not any((ord(one) < 32 and one not in "\t\n") or ord(one) == 127 for one in shown), shown


# ------------------------------------------------------------------ documents with one wrong place


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else list(enumerate(value))[:3] if isinstance(value, list) else ()
    for key, one in items:
        yield from places(one, (*path, key))


def put(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    """The document with another value in one place; what lies off the way there is shared."""
    if not path:
        return value
    changed = copy.copy(document)
    changed[path[0]] = put(document[path[0]], path[1:], value)
    return changed


def damaged(document: Any, all_places: list[tuple[Any, ...]], choose: Chooser) -> Any:
    """A copy with one to four places changed."""
    for _ in range(1 + choose.number(4)):
        path = choose.one(all_places)
        try:
            document = put(document, path, choose.value())
        except (KeyError, IndexError, TypeError):  # an earlier change took the place away
            continue
    return document


@functools.cache
def documents() -> list[tuple[Any, list[tuple[Any, ...]]]]:
    found = [json.loads(path.read_text()) for path in sorted(DOCUMENTS.glob("*.json"))]
    whole = [one for one in found if isinstance(one.get("facts"), dict)]
    return [(one, list(places({key: one[key] for key in ("facts", "live", "symptoms") if one.get(key)}))) for one in whole]


def read_record(data: bytes) -> Snapshot | None:
    choose = Chooser(data)
    document, all_places = choose.one(documents())
    try:
        return recorded.snapshot_of(damaged(document, all_places, choose), "record.json")
    except UsageError:
        return None


def snapshots(data: bytes) -> None:
    """A record is refused in a line, or is what it says: to JSON and back without loss."""
    found = read_record(data)
    if found is not None:
        assert codec.decode_snapshot(json.loads(json.dumps(codec.encode(found)))) is not None


def judged(data: bytes) -> None:
    """What was not refused is judged and shown, in a format that the last byte chooses."""
    found = read_record(data)
    if found is None:
        return
    report = report_on(settle(found, session()), session())
    form = FORMATS[(data[-1] if data else 0) % len(FORMATS)]
    text = render(report, form)
    text.encode()
    if form in ("json", "sarif"):
        json.loads(text, parse_constant=refuse)


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


@functools.cache
def agents_lines() -> tuple[list[Any], list[tuple[Any, ...]]]:
    lines = [json.loads(line) for line in (HERE / "agent.jsonl").read_text().splitlines()]
    return lines, [(at, *path) for at, line in enumerate(lines) for path in places(line)]


def agent(data: bytes) -> None:
    """Whatever the target's interpreter answers, each section is facts or missing."""
    choose = Chooser(data)
    lines = damaged(*agents_lines(), choose)
    static = choose.number(2) == 1
    written = (json.dumps(line).encode("utf-8", "replace") for line in lines)  # as from the file: what is no line is dropped
    kept = [row for line in written if (row := process_line(line)) is not None]
    ended = process.Ended(tuple(kept), 0, None, "", "", 2.0, 10.0)
    assert steps(ended.lines) is not None
    found = sections(ended, Target("python", "the fuzzer wants it"), static=static, live_asked=not static)
    Snapshot(**found)


def process_line(line: bytes) -> Any:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) and process._sound(row) else None


# ------------------------------------------------------------------ what a user or a site writes


@functools.cache
def flags() -> dict[str, Any]:
    return command_parser("check").flags


def config(data: bytes) -> None:
    try:
        table = configuration._table(configuration._parsed(data, "envcheck.toml"), "envcheck.toml")
        settings, _ = configuration._chosen(table, None, "envcheck.toml", flags())
    except UsageError as error:
        assert "\n" not in str(error)
        return
    assert settings.keys() <= configuration.KEYS.keys()


WISH_FILES = ("requirements.txt", "pyproject.toml", "environment.yml", "uv.lock", "pylock.toml", "constraints.txt")


def plans(data: bytes) -> None:
    """Words of `envcheck plan`, and the files of -r with what holds of them on a machine."""
    choose = Chooser(data)
    which, text = choose.number(len(WISH_FILES) + 2), choose.rest().encode("utf-8", "replace").decode()
    try:
        if which < len(WISH_FILES):
            file = read_wish_file(WISH_FILES[which], text)
            asked = read_entries((file,), Profile(python="3.12"), session().tables)
            together([(entry.one.name, entry.one) for entry in (*asked.wishes, *asked.constraints)])
        else:
            read_wish(text.split("\0")[:4], session().tables)
    except UsageError as error:
        assert str(error)


GPUS = tuple(Gpu(index, uuid=f"GPU-{index:08x}-1111-2222-3333-{index:012x}", name="NVIDIA H100 80GB HBM3") for index in range(3))


def visible_devices(data: bytes) -> None:
    """What CUDA makes of a value: never more GPUs than there are, none twice, and what is lost stands in the value."""
    choose = Chooser(data)
    gpus, order = GPUS[: choose.number(4)], choose.one((None, "PCI_BUS_ID", "FASTEST_FIRST", "x"))
    value = choose.rest()
    got = cuda_visible_devices.read_visible(value, gpus, order)
    if got.indices is not None:
        assert len(set(got.indices)) == len(got.indices) == got.count
        assert set(got.indices) <= {gpu.index for gpu in gpus}
    if got.count is not None and gpus:
        assert 0 <= got.count <= len(gpus)
    assert got.stopped_at is None or got.stopped_at in value
    assert ",".join(got.lost) in value
    assert got.outcome is not None and got.cuda_error in (None, 100, 101)


def version_words(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    one, _, other = text.partition(" ")
    versions.meets(one, other)
    versions.minor(one)
    versions.at_least(one, "2.0")
    versions.build_tag(one)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "readers": readers, "diagnosed": diagnosed, "parsers": parsers, "launches": launches, "own-documents": own_documents,
    "stated": stated, "printed": printed, "snapshots": snapshots, "judged": judged, "agent": agent, "config": config, "plans": plans,
    "visible-devices": visible_devices, "versions": version_words,
}  # fmt: skip
# Bytes of an input at most: longer ones cost time and reach nothing new.
MOST_BYTES = {"visible-devices": 200, "versions": 80, "snapshots": 200, "judged": 200, "agent": 200, "config": 400, "plans": 600}
