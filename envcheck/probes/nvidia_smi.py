"""nvidia-smi: one cheap query, and the whole report where NVML does not say it all."""

from __future__ import annotations

import time

from envcheck.facts.record import record
from envcheck.facts.snapshot import Gpu, GpuTrouble, Reading, ToolAnswer, ToolStatus
from envcheck.host.access import Completed, Host
from envcheck.read import smi_fields, smi_query
from envcheck.read.smi import SmiReport, lost_lines, read_smi, without_handle

FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "driver_version",
    "compute_cap",  # not before R510
    "memory.total",
    "memory.used",
    "memory.free",
    "compute_mode",
    "mig.mode.current",  # not before R450
    "ecc.mode.current",
)
_REFUSALS = 4  # fields that a release may not know before we give up
# A shell that starts the program says 128 + signal.
_SHELL_SIGNALS = {132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 137: "SIGKILL", 139: "SIGSEGV"}


@record
class SmiAnswer:
    """One call, and what it says."""

    answer: ToolAnswer
    source: str
    driver: str | None = None
    cuda: str | None = None
    cuda_state: str | None = None
    library_version: str | None = None
    gpus: tuple[Gpu, ...] = ()
    lost: tuple[str, ...] = ()
    troubles: tuple[GpuTrouble, ...] = ()

    @property
    def reading(self) -> Reading | None:
        return Reading(self.source, self.driver, self.cuda) if self.driver or self.cuda else None

    @property
    def useful(self) -> bool:
        """It reached the driver: asking for more may give more."""
        return self.answer.status is ToolStatus.OK or bool(self.gpus)


def query(host: Host, program: str, timeout: float) -> SmiAnswer:
    """--query-gpu with few fields; a field that this release does not know is left out, and the rest asked again."""
    deadline = time.monotonic() + timeout
    fields = list(FIELDS)
    done = _query(host, program, fields, deadline)
    for _ in range(_REFUSALS):
        refused = smi_query.refused_field(done.stdout + done.stderr)
        if refused not in fields:
            break
        fields.remove(refused)
        done = _query(host, program, fields, deadline)
    rows = smi_query.read_rows(fields, done.stdout)
    report = read_smi_failure(done)
    return SmiAnswer(
        answer=_answer(done, program, readable=bool(rows.gpus)),
        source="nvidia-smi --query-gpu",
        driver=rows.driver,
        library_version=report.library_version,
        gpus=rows.gpus,
        lost=report.lost,
        troubles=(*report.troubles, *smi_fields.troubles(rows.gpus)),
    )


def _query(host: Host, program: str, fields: list[str], deadline: float) -> Completed:
    argv = (program, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
    return host.run(argv, timeout=max(0.1, deadline - time.monotonic()))


def read_smi_failure(done: Completed) -> SmiReport:
    """The words of a failure alone; they come on stdout with some releases and on stderr with others."""
    text = f"{done.stdout}\n{done.stderr}"
    if done.code == 0 and "Unable to determine" not in text:
        return SmiReport()
    library = read_smi(text[:4000]).library_version
    closed = without_handle(text)
    return SmiReport(library_version=library, lost=lost_lines(closed), troubles=closed)


def full_report(host: Host, program: str, timeout: float) -> SmiAnswer:
    """-q -x: everything that nvidia-smi knows of every device, but for the compute capability."""
    return _read(host.run((program, "-q", "-x"), timeout=timeout), program, "nvidia-smi -q -x")


def banner(host: Host, program: str, timeout: float) -> SmiAnswer:
    """The plain table: for releases whose query and report give no driver or CUDA version."""
    return _read(host.run((program,), timeout=timeout), program, "nvidia-smi")


def _read(done: Completed, program: str, source: str) -> SmiAnswer:
    report = read_smi(done.stdout if done.code == 0 else f"{done.stdout}\n{done.stderr}")
    return SmiAnswer(
        answer=_answer(done, program, readable=bool(report.driver or report.gpus or report.attached is not None)),
        source=source,
        driver=report.driver,
        cuda=report.cuda,
        cuda_state=report.cuda_state,
        library_version=report.library_version,
        gpus=report.gpus,
        lost=report.lost,
        troubles=report.troubles,
    )


def _answer(done: Completed, program: str, *, readable: bool) -> ToolAnswer:
    words = _words(done)
    seconds = round(done.seconds, 3)
    if done.not_found:
        return ToolAnswer(ToolStatus.ABSENT, path=program)
    if done.not_executable:
        return ToolAnswer(ToolStatus.FAILED, message=words or "it cannot be executed", path=program)
    if done.timed_out:
        return ToolAnswer(ToolStatus.TIMEOUT, message=f"no answer within {done.seconds:.0f} s", seconds=seconds, path=program)
    ended_by = done.signal or _SHELL_SIGNALS.get(done.code or 0)
    if ended_by is not None:
        return ToolAnswer(ToolStatus.CRASHED, done.code, ended_by, words, seconds, program)
    if done.code != 0:
        return ToolAnswer(ToolStatus.FAILED, done.code, None, words, seconds, program)
    if not readable:
        return ToolAnswer(ToolStatus.UNREADABLE, 0, None, words, seconds, program)
    return ToolAnswer(ToolStatus.OK, 0, None, "", seconds, program)


def _words(done: Completed) -> str:
    """The first lines that are no data, from both streams."""
    text = "".join(
        character if character.isprintable() or character == "\n" else "?" for character in f"{done.stdout}\n{done.stderr}"[:8000]
    )
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    said = [line for line in lines if line.count(",") < len(FIELDS) - _REFUSALS - 1] or lines
    return "\n".join(line[:300] for line in said[:3])
