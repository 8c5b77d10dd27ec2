"""`envcheck diagnose`: other machines' reports, logs and tracebacks → one snapshot with symptoms → the cause."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from envcheck.commands.configuration import rule_session
from envcheck.commands.inputs import named, standard_input
from envcheck.commands.output import add_flags, deliver
from envcheck.errors import UsageError
from envcheck.facts.record import field, mutable, record, replace
from envcheck.facts.recorded import FACTS_LIMIT_BYTES
from envcheck.facts.snapshot import WARNED, Distribution, Missing, Snapshot, SymptomsFacts, TextEvidence
from envcheck.read.clean import GZIP, HEAD_BYTES, PIECE_BYTES, clean, pieces, what_binary
from envcheck.read.found import Role

if TYPE_CHECKING:
    from envcheck.engine.judge import Finding
    from envcheck.read.found import Claim, Found
    from envcheck.read.merge import Merged, Source
    from envcheck.read.own_report import OwnReport
    from envcheck.report.report import Report
    from envcheck.report.session import RuleSession
    from envcheck.symptoms.scan import Scanner, Symptoms

COMPLAINTS = ": complaints"  # at the end of the source of what a person only tells of
IN_PASSING = ("statements", "complaints", "demands")  # read in every text: they say nothing of what kind it is
LOUD = 4  # findings at error or warning that are shown: a list of guesses names nothing
FACTS_BYTES = 4 << 20
OUT_OF_MEMORY = "gpu-out-of-memory"
TOO_LARGE = "the program asked for more GPU memory than there was; whether this machine trains what takes less, the text does not show"
RECORDS = ("record", "evidence archive")  # forms of our own documents that hold facts and no verdict


def configure_parser(parser: argparse.ArgumentParser) -> None:
    """The flags of `envcheck diagnose`."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="reports, logs, tracebacks, nvidia-smi output, or a folder of them; - is stdin, which is the default without --facts",
    )
    parser.add_argument(
        "--facts",
        metavar="FILE",
        action="append",
        default=[],
        help="what `envcheck record` wrote, or observations (TOML, JSON); adds to the files",
    )
    parser.add_argument("--fix-suggest", action="store_true", help="print every command that would fix a finding, for pip, uv and conda")
    parser.add_argument(
        "--tool", choices=("auto", "pip", "uv", "conda"), default="auto", help="whose commands come first (default: the target's own)"
    )
    parser.add_argument("--index-base", metavar="URL", help="printed commands name this mirror (default: https://download.pytorch.org/whl)")
    parser.add_argument(
        "--select",
        metavar="RULE|FAMILY",
        action="append",
        default=[],
        help="only these rules, e.g. driver,shm-small (repeatable; default: all)",
    )
    parser.add_argument(
        "--ignore",
        metavar="RULE|FAMILY",
        action="append",
        default=[],
        help="without these rules, e.g. driver,shm-small (repeatable; default: none)",
    )
    add_flags(parser)
    parser.epilog = (
        "`envcheck diagnose train.log` reads a file, `python train.py 2>&1 | envcheck diagnose` what a program prints."
        " With `envcheck record -o facts.json` on that machine and `--facts facts.json` here its facts are weighed too."
        " `envcheck rules` lists rules and families."
        " exit codes: 0 nothing wrong is shown, 1 a cause is named, 2 usage, 3 cannot tell"
    )


def execute(args: argparse.Namespace) -> int:
    """0 nothing wrong is shown, 1 the cause is named, 3 nothing decides."""
    by = rule_session(args, args.select)
    texts = Given(by)
    names = list(args.files) or ([] if args.facts else ["-"])
    for name in args.facts:
        texts.take_facts(name)
    files, left_out = named(names)
    for name, label in files.items():
        texts.take_file(name, label)
    texts.refused.update(left_out)
    report, read = diagnose(texts, tool=args.tool, index_base=args.index_base)
    report = replace(report, configuration=args.configuration)
    deliver(args, lambda form, to_stdout: _rendered(report, read, args, form, to_stdout))
    return report.exit_code


def load_facts(path: str, by: RuleSession) -> Snapshot:
    """The snapshot of a `--facts` file: a recording (it has `schema`), else observations of a person."""
    texts = Given(by)
    texts.take_facts(path)
    return texts.merged().snapshot if texts.snapshot is None else texts.snapshot


def diagnose_output(
    texts: Sequence[tuple[str, str]], snapshot: Snapshot | None, by: RuleSession, *, tool: str = "auto", index_base: str | None = None
) -> tuple[Report, list[str]]:
    """What a failed command left (name, text), weighed against the machine it ran on; and what is known of its lines beside a rule."""
    from envcheck.facts.printable import one_line

    given = Given(by, snapshot=snapshot)
    for name, text in texts:
        given.take_raw(text, name)
    report, read = diagnose(given, tool=tool, index_base=index_base)
    known = [f"{one_line(one.text, 90)}: {one.advice}" for one in read.symptoms.harmless[:3]]
    return report, known + [f"{one_line(one.text, 90)}: what would tell more: {one.advice}" for one in read.symptoms.victims[:1]]


@record
class Read:
    """What was read, for the reader of the report: kinds of text by file, where each fact stands, lines that mean no harm."""

    files: Mapping[str, tuple[str, ...]]
    refused: Mapping[str, str]
    sources: Mapping[str, Source]
    symptoms: Symptoms
    reports: tuple[tuple[str, OwnReport], ...]
    other: tuple[str, ...]
    conflicts: tuple[str, ...]
    claims: tuple[tuple[str, Claim], ...]


@mutable
class Given:
    """All that one run was given, and by which rules it is read."""

    by: RuleSession
    snapshot: Snapshot | None = None  # a recorded one, which texts add symptoms to
    found: list[tuple[str, Found]] = field(default_factory=list)
    kinds: dict[str, dict[str, None]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    proposed: set[str] = field(default_factory=set)  # files that speak of messages without having met them
    filled: set[str] = field(default_factory=set)  # files with more than blanks and our own reports in them
    reports: list[tuple[str, OwnReport]] = field(default_factory=list)
    told: list[TextEvidence] = field(default_factory=list)  # what a person most probably has who tells of it without a message
    excerpt: str = ""  # the beginning and the end of all texts
    tails: dict[str, str] = field(default_factory=dict)  # the end of each
    _scanner: Scanner | None = None

    @property
    def scanner(self) -> Scanner:
        if self._scanner is None:
            from envcheck.symptoms.scan import Scanner

            self._scanner = Scanner(self.by.symptoms)
        return self._scanner

    def take_file(self, name: str, label: str = "") -> None:
        """Read a file, or stdin for "-", in pieces. UsageError if it cannot be opened; a binary one is refused with a line."""
        if name == "-":
            self._take_stream(standard_input(), "stdin")
            return
        from envcheck.facts.given_file import open_given

        try:
            with open_given(name) as file:
                self._take_stream(file, label or os.path.basename(name))
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror or error}") from None

    def _take_stream(self, file: BinaryIO, name: str) -> None:
        head = file.read(HEAD_BYTES)
        if head.startswith(GZIP) and self._take_archive(file, head, name):
            return
        binary = what_binary(head)
        if binary:
            self.refused[name] = f"{binary}: not a text, not read"
            return
        self.kinds.setdefault(name, {})
        whole = head.lstrip().startswith(b"{") and b'"schema"' in head  # one value, however large
        for piece in pieces(file, head, FACTS_LIMIT_BYTES if whole else PIECE_BYTES, lambda raw: self._without_documents(raw, name)):
            self.take_text(piece.text, name)

    def _take_archive(self, file: BinaryIO, head: bytes, name: str) -> bool:
        """Whether it is what --evidence kept."""
        from envcheck.read.own_archive import read_archive

        report = read_archive(head, file)
        if report is not None:
            self._keep([report], name)
        return report is not None

    def _without_documents(self, raw: str, name: str) -> str:
        from envcheck.read.own_reports import take_documents

        raw, reports = take_documents(raw, self.by.texts.ids)
        self._keep(reports, name)
        return raw

    def _keep(self, reports: Sequence[OwnReport], name: str) -> None:
        """Note reports of ours. The facts of the first are the machine's."""
        for report in reports:
            self.reports.append((name, report))
            self.kinds.setdefault(name, {})[report.kind] = None
            if self.snapshot is None:
                self.snapshot = report.snapshot

    def take_raw(self, raw: str, name: str) -> None:
        """One piece of text as it stands in its file."""
        self.take_text(clean(self._without_documents(raw, name)), name)

    def take_text(self, text: str, name: str) -> None:
        """One clean piece of text, out of which documents were taken."""
        from envcheck.read.gists import told_faults
        from envcheck.read.identify import log_kinds, read_text
        from envcheck.read.own_reports import take_pages
        from envcheck.symptoms.course import innermost, outlived, proposed, without_field_lists, without_retries

        text, reports = take_pages(text, self.by.texts.ids)
        self._keep(reports, name)
        if not text.isspace() and text:
            self.filled.add(name)
            self.excerpt = _excerpt(self.excerpt, text)
            tail = f"{self.tails.get(name, '')}\n{text}"
            self.tails[name] = tail if len(tail) <= LAST else tail[-LAST:].partition("\n")[2]
        found = read_text(text)
        self.found += [(name, one) for one in found]
        self.kinds.setdefault(name, {}).update(
            dict.fromkeys([*(one.kind for one in found if one.kind not in IN_PASSING), *log_kinds(text)])
        )
        self.scanner.scan(innermost(outlived(without_retries(without_field_lists(text)))), name)
        if proposed(text):
            self.proposed.add(name)
        else:
            self.told += told_faults(text, name)

    def take_facts(self, name: str) -> None:
        """A snapshot (it has `schema`) or observations. UsageError for what is neither TOML nor JSON."""
        values = _load(name)
        if "schema" in values:
            from envcheck.facts.recorded import snapshot_of

            self.snapshot = snapshot_of(values, name)
            return
        from envcheck.read.observations import as_lines, read_observations

        label = os.path.basename(name)
        try:
            self.found.append((label, read_observations(values)))
            self.scanner.scan(clean(as_lines(values)), label, stated=True)
        except RecursionError:
            raise UsageError(f"--facts {name}: nested too deeply for observations") from None
        self.kinds[label] = {"observations": None}

    def last_words(self) -> Iterator[str]:
        """The last lines of texts that do not say that all goes well."""
        from envcheck.symptoms.last_word import last_word

        for name, tail in self.tails.items():
            yield last_word(self.scanner.without_harmless(tail), self.kinds.get(name, {}))

    def merged(self, symptoms: Symptoms | None = None) -> Merged:
        """All that the texts say, with what the scanner found in them where that is known already."""
        from envcheck.read.gists import unless_known
        from envcheck.read.merge import merge

        said = (symptoms or self.scanner.finish()).matches
        signs = [sign for _, one in self.found for sign in one.signs]
        return merge(self.found, (*said, *unless_known(self.told, (*said, *signs))), self.by.tables)


LAST = 4096  # characters of the end of a text in which its last word is looked for
EXCERPT = 1 << 15  # characters at either end


def _excerpt(before: str, text: str) -> str:
    whole = f"{before}\n{text if len(text) <= 2 * EXCERPT else text[:EXCERPT] + text[-EXCERPT:]}"
    return whole if len(whole) <= 2 * EXCERPT else whole[:EXCERPT] + whole[-EXCERPT:]


def _load(name: str) -> Mapping[str, Any]:
    from envcheck.facts.given_file import read_given
    from envcheck.facts.printable import one_line

    data = read_given(name, "--facts", FACTS_LIMIT_BYTES)
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    is_json = text.lstrip()[:1] in ("{", "[")
    try:
        if is_json:
            import json

            values = json.loads(text)
        elif len(data) > FACTS_BYTES:
            raise UsageError(f"--facts {name}: more than {FACTS_BYTES >> 20} MiB of observations")
        else:
            from envcheck.tables.toml import parse_toml

            values = parse_toml(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--facts {name}: neither TOML nor JSON: {one_line(str(error), 160)}") from None
    if not isinstance(values, dict):
        raise UsageError(f"--facts {name}: a table of observations was expected, found a list")
    if is_json and "schema" not in values and len(data) > FACTS_BYTES:
        raise UsageError(f"--facts {name}: more than {FACTS_BYTES >> 20} MiB of observations")
    return values


# ------------------------------------------------------------------ judge


def diagnose(texts: Given, *, tool: str = "auto", index_base: str | None = None) -> tuple[Report, Read]:
    """Weigh facts and error text together."""
    from envcheck.report.report import live_asked
    from envcheck.report.session import report_on
    from envcheck.symptoms.course import ended_well, said_to_work

    symptoms = texts.scanner.finish()
    merged = texts.merged(symptoms)
    snapshot = merged.snapshot
    if texts.snapshot is not None:
        snapshot = _with_symptoms(texts.snapshot, snapshot.symptoms)
    own = texts.reports

    def choose(found: Sequence[Finding]) -> Sequence[Finding]:
        known, over = known_first(found, snapshot.symptoms), ended_well(texts.excerpt)
        judged = doubted(known, snapshot.symptoms, texts.proposed, works=said_to_work(texts.excerpt), over=over)
        if not own:
            return first_causes(judged)
        from envcheck.report.reported import joined, taken_over

        reported = taken_over(own, texts.by, texts.snapshot)
        if any(one.snapshot is texts.snapshot and not one.complete for _, one in own):
            judged = _shown_elsewhere(judged, reported, texts)
        return first_causes(joined(reported, _asked_for(judged, own), texts.by.texts, texts.snapshot is not None), len(reported))

    report = report_on(
        snapshot,
        texts.by,
        fail_on="error",
        live_requested=texts.snapshot is not None and live_asked(texts.snapshot.live),
        tool=tool,
        index_base=index_base,
        choose=choose,
    )
    read = Read(
        {name: tuple(kinds) for name, kinds in texts.kinds.items()},
        dict(texts.refused),
        merged.sources,
        symptoms,
        tuple(own),
        tuple(one.text for one in merged.other),
        merged.conflicts,
        merged.claims,
    )
    return _decided(report, read, texts), read


def _with_symptoms(snapshot: Snapshot, found: SymptomsFacts | Missing) -> Snapshot:
    """A recorded machine with what the texts show; its own symptoms (ranks' stderr) stay."""
    own = () if isinstance(snapshot.symptoms, Missing) else snapshot.symptoms.matches
    new = () if isinstance(found, Missing) else found.matches
    return replace(snapshot, symptoms=SymptomsFacts((*own, *new)))


def doubted(
    found: Sequence[Finding],
    symptoms: SymptomsFacts | Missing,
    proposed: Collection[str] = (),
    *,
    works: bool = False,
    over: bool = False,
) -> tuple[Finding, ...]:
    """The findings, less sure where they rest on nothing but messages that somebody quotes or that were got over (`over`), and warnings
    where they rest on a program's warnings or a person says that all goes well (`works`); a message that a text only speaks of
    (`proposed`, by file) is no more than a note. What is certain comes first."""
    from envcheck.checks.launch_sums import STARTED
    from envcheck.engine.rule import Confidence, Severity
    from envcheck.symptoms.course import at_warning_level

    matches = () if isinstance(symptoms, Missing) else symptoms.matches
    quotations = {(one.source, one.text) for one in matches if one.quoted}
    lines = {(one.source, one.text) for one in matches}

    def weighed(one: Finding) -> Finding:
        if works and one.severity is Severity.ERROR:
            return replace(one, confidence=Confidence.LIKELY, severity=Severity.WARNING)
        seen = [(each.source, each.text) for each in one.evidence if each.source != STARTED]  # a command by itself proves nothing
        if not seen or not all(each in lines for each in seen):
            return one
        if all(source.removesuffix(COMPLAINTS) in proposed for source, _ in seen):
            return replace(one, confidence=Confidence.LIKELY, severity=Severity.INFO)
        if all(source.endswith(COMPLAINTS) for source, _ in seen):  # no program printed it
            return replace(one, confidence=Confidence.LIKELY)
        if all(at_warning_level(text) for _, text in seen):
            severity = one.severity if one.severity is Severity.INFO else Severity.WARNING
            return replace(one, confidence=Confidence.LIKELY, severity=severity)
        return replace(one, confidence=Confidence.LIKELY) if over or all(each in quotations for each in seen) else one

    rows = [weighed(one) for one in found]
    return (
        tuple(rows)
        if rows == list(found)
        else tuple(sorted(rows, key=lambda one: (one.severity.order, one.confidence is Confidence.LIKELY)))
    )


def _asked_for(judged: Sequence[Finding], reports: Sequence[tuple[str, OwnReport]]) -> tuple[Finding, ...]:
    """What is found, without the rules that the user of a report did not want to hear of."""
    ignored = {rule for _, report in reports for rule in report.ignored}
    return tuple(one for one in judged if one.rule not in ignored)


def _shown_elsewhere(judged: Sequence[Finding], reported: Sequence[Finding], texts: Given) -> tuple[Finding, ...]:
    """What a report with all facts at hand did not find is no finding from a part of them, unless another text shows it."""
    rules = {one.rule for one in reported}
    return tuple(one for one in judged if one.rule in rules or any(each.source in texts.kinds for each in one.evidence))


def known_first(found: Sequence[Finding], symptoms: SymptomsFacts | Missing) -> tuple[Finding, ...]:
    """The findings; a warning that only its source file places is no cause beside one that a rule knows."""
    from envcheck.engine.rule import Severity

    placed = {(one.source, one.text) for one in _placed(symptoms)}
    known = [one for one in found if not one.evidence or any((each.source, each.text) not in placed for each in one.evidence)]
    return tuple(known if any(one.severity is not Severity.INFO for one in known) else found)


def _placed(symptoms: SymptomsFacts | Missing) -> tuple[TextEvidence, ...]:
    matches = () if isinstance(symptoms, Missing) else symptoms.matches
    return tuple(one for one in matches if one.variant == WARNED or one.rule == "nccl-warning")


def first_causes(found: Sequence[Finding], reported: int = 0) -> tuple[Finding, ...]:
    """The first findings at error or warning, and those that only inform; all that stand in a report come first and are kept."""
    from envcheck.engine.rule import Severity

    loud = [one for one in found if one.severity is not Severity.INFO]
    quiet = [one for one in found if one.severity is Severity.INFO]
    return (*loud[: max(LOUD, reported)], *quiet)


def _decided(report: Report, read: Read, texts: Given) -> Report:
    """The verdict of a diagnosis: named, healthy, or undecided with the one thing to run."""
    from envcheck.engine.rule import Confidence, Severity
    from envcheck.facts.printable import one_line

    if read.reports and not texts.filled and (said := _of_reports(report, read)) is not None:
        return said
    loud = [one.finding for one in report.findings if one.finding.severity is not Severity.INFO]
    if any(one.severity is Severity.ERROR and one.confidence is Confidence.CERTAIN for one in loud):
        return replace(report, verdict="fail", exit_code=1, because=())
    if loud:
        likely = [one for one in loud if one.confidence is Confidence.LIKELY]
        if not likely:
            messages = {(one.source, one.text) for one in read.symptoms.matches}
            pasted = any((each.source, each.text) in messages for one in loud for each in one.evidence)
            if not pasted and not _trouble(read, texts):
                return replace(report, verdict="pass", exit_code=0, because=())
            reason = TOO_LARGE if loud[0].rule == OUT_OF_MEMORY else f"{loud[0].rule} is certain, but need not be why the program failed"
            return replace(report, verdict="inconclusive", exit_code=3, because=(reason, _ask(read)))
        return replace(report, verdict="inconclusive", exit_code=3, because=(f"{likely[0].rule} is likely, not certain", _ask(read)))
    if own := next((one for one in read.symptoms.harmless if one.ends), None):
        because = ("the program failed by a fault of its own", f"to decide, read: {one_line(own.text, 90)}: {own.advice}")
        return replace(report, verdict="inconclusive", exit_code=3, because=because)
    if _trouble(read, texts) or not _says_something(read, texts):
        from envcheck.commands.nearest import nearest_to_text

        shown = "it shows only consequences of a cause" if read.symptoms.victims else "it shows no cause that envcheck knows"
        nearest = nearest_to_text(texts.excerpt, texts.by)
        return replace(report, verdict="inconclusive", exit_code=3, because=(shown, _ask(read)), nearest=nearest)
    return replace(report, verdict="pass", exit_code=0, because=())


def _of_reports(report: Report, read: Read) -> Report | None:
    """The verdict where nothing but reports of ours was read: the worst that they say; of facts alone, what they are judged to be.
    None where a report was cut and does not say."""
    said = {one.verdict for _, one in read.reports if one.form not in RECORDS}
    if not said:
        return report
    if report.verdict == "fail" or "fail" in said:
        return replace(report, verdict="fail", exit_code=1, because=())
    if "inconclusive" in said:
        because = tuple(dict.fromkeys(reason for _, one in read.reports for reason in one.because))
        return replace(report, verdict="inconclusive", exit_code=3, because=because)
    return None if "" in said else replace(report, verdict="pass", exit_code=0, because=())


_LOGS = frozenset({"traceback", "torchrun", "Ray", "Lightning", "DeepSpeed", "docker", "pip", "compiler", "error"})


_SPEAKS = re.compile(
    r"\b(?:I|my|we|our)\b|[\u4e00-\u9fff]{4}|[\u0400-\u04ff]{4}|[\u3041-\u30ff]{4}|[\uac00-\ud7a3]{3}"
)  # a person, who would not ask about a command that does what it should


def _trouble(read: Read, texts: Given) -> bool:
    """Whether something failed that no rule explains: a victim's words, an error that means harm, a text of which nothing is known."""
    from envcheck.read.concepts import said
    from envcheck.read.gists import stands_still

    if read.symptoms.victims or texts.scanner.complains or any(one.symptom == "cuda-says-false" for one in read.symptoms.matches):
        return True  # somebody says that torch sees no GPU, whatever a report beside it says
    if texts.told or texts.scanner.fails or stands_still(texts.excerpt) or any(texts.last_words()):
        return True
    if read.symptoms.harmless:
        return False
    if said(texts.excerpt).find("run-fails"):
        return True
    kinds = {kind for kinds in read.files.values() for kind in kinds}
    if kinds <= {"launch command"} and _SPEAKS.search(texts.excerpt):
        return True
    return bool(kinds & _LOGS) or any(not kinds for name, kinds in read.files.items() if name in texts.filled)


def _says_something(read: Read, texts: Given) -> bool:
    return bool(read.sources) or bool(read.symptoms.harmless) or texts.snapshot is not None


def _ask(read: Read) -> str:
    """The one command that would decide."""
    if read.symptoms.victims and not _placed(SymptomsFacts(read.symptoms.matches)):  # its advice is to look for such a warning
        return f"to decide, run: {read.symptoms.victims[0].advice}"
    kinds = {kind for kinds in read.files.values() for kind in kinds}
    if "collect_env" not in kinds:
        return "to decide, run on that machine: envcheck record -o snapshot.json, then: envcheck diagnose --facts snapshot.json LOG"
    if not kinds & _LOGS:
        return "to decide, add the error text: python train.py 2>&1 | tee log.txt, then: envcheck diagnose report.txt log.txt"
    return "to decide, run on that machine: envcheck (its live check runs what the report cannot show)"


# ------------------------------------------------------------------ write


def _rendered(report: Report, read: Read, args: argparse.Namespace, form: str, to_stdout: bool) -> str:
    from envcheck.commands.rendering import myself, shown, spoken

    if args.redact:
        from envcheck.report.redact import map_strings, redacted, redactor

        report, read = redacted(report, **myself()), map_strings(read, redactor(report, **myself()))
    if form == "json":
        return _json(report, read)
    report = spoken(report, args, form, to_stdout)
    body = shown(report, args, form, to_stdout)
    if form != "text" or args.quiet:
        return body
    from envcheck.render.styled import padded

    say = report.language.say
    told = [*_read_lines(read, say), *(_taken_lines(read) if args.verbose else [])]
    lines = [f"{padded(say(label), LABEL)}{said}" for label, said in told]
    return "\n".join([*lines, body + "".join(f"{say(reason)}\n" for reason in report.because[-1:])])


LABEL = 8  # columns


def _read_lines(read: Read, say: Callable[[str], str]) -> list[tuple[str, str]]:
    """("read", "report.txt: collect_env, traceback"): what each file was taken for."""
    from envcheck.facts.printable import one_line

    unknown = say("nothing that envcheck knows")
    lines = [("read", f"{one_line(name)}: {one_line(', '.join(kinds) or unknown)}") for name, kinds in read.files.items()]
    lines += [("says", f"{one_line(name)}: {one_line(one.line)}") for name, one in read.reports if _speaks(one)]
    lines += [("refused", f"{one_line(name)}: {one_line(say(reason))}") for name, reason in read.refused.items()]
    lines += [("no harm", f"{one_line(one.text, 90)}: {say(one.advice)}") for one in read.symptoms.harmless[:3] if not one.ends]
    return [*lines, *(("differs", one_line(one)) for one in read.conflicts[:3])]


def _speaks(report: OwnReport) -> bool:
    """Whether the report's verdict is worth a line: where it is the page that decides nothing, ours says so."""
    from envcheck.read.own_pages import NO_REPORT

    return bool(report.line) and report.form != "JSON" and report.because not in NO_REPORT.values()


def _taken_lines(read: Read) -> list[tuple[str, str]]:
    """Facts with their lines, what was said of something else, and the row of the table that a message is."""
    from envcheck.facts.printable import one_line

    taken = [
        ("fact", f"{path}: {one_line(one.file)}{f' line {one.line}' if one.line else ''}: {one_line(one.text, 90)}")
        for path, one in sorted(read.sources.items())
    ]
    said = [(name, _claim(name, one)) for name, one in read.claims if one.role is not Role.HAS]
    taken += [("other", f"{one['subject']} {one['value']} ({one['role']}): {one_line(name)} line {one['line']}") for name, one in said]
    rows = dict.fromkeys((one.message, one.rule) for one in read.symptoms.matches)
    return [*taken, *(("message", f"{one_line(message, 90)}: {rule}") for message, rule in rows if message)]


def _claim(name: str, claim: Claim) -> dict[str, Any]:
    """As JSON: what was said in passing, and whom it was taken to be about."""
    from envcheck.facts.printable import one_line

    value = claim.value
    if isinstance(value, tuple):  # a product and how many of it
        value = f"{value[1]} × {value[0]}"
    elif isinstance(value, Distribution):
        value = value.version
    where = {"file": one_line(name), "line": claim.number, "text": one_line(claim.line)}
    return {"subject": claim.subject, "value": value, "role": claim.role.value, **where}


def _json(report: Report, read: Read) -> str:

    from envcheck.facts.printable import one_line
    from envcheck.render.json_v1 import document, json_text

    def noted(rows: Sequence[Any]) -> list[dict[str, str]]:
        return [{"id": one.entry, "source": one.source, "text": one_line(one.text), "advice": one.advice} for one in rows]

    extra = {
        "files": [{"name": one_line(name), "kinds": list(kinds)} for name, kinds in read.files.items()],
        "refused": [{"name": one_line(name), "reason": reason} for name, reason in read.refused.items()],
        "reports": [
            {
                "file": one_line(name),
                "format": one.form,
                "version": one_line(one.version),
                "verdict": one.verdict,
                "rules": [finding.rule for finding in one.findings],
            }
            for name, one in read.reports
        ],
        "sources": {
            path: {"file": one_line(one.file), "line": one.line, "text": one_line(one.text)} for path, one in sorted(read.sources.items())
        },
        "other": [one_line(one) for one in read.other],
        "harmless": noted(read.symptoms.harmless),
        "victims": noted(read.symptoms.victims),
        "conflicts": [one_line(one) for one in read.conflicts],
        "claims": [_claim(name, one) for name, one in read.claims],
    }
    return json_text({**document(report), "read": extra})
