"""Finished reports to render: healthy machines, sick ones, and one whose every text is hostile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from envcheck.commands.bases import base
from envcheck.engine.judge import Finding, Outcome, Verdict
from envcheck.engine.rule import Confidence, Evidence, RuleTexts, Severity
from envcheck.facts.codec import edit
from envcheck.facts.snapshot import Snapshot
from envcheck.planner.result import Commands, Excluded, Fix, Grade, PlanReport, Way
from envcheck.report.report import Report, Reported, finish
from envcheck.report.session import decisions
from envcheck.tables.folders import rules_folder

RULES = Path(rules_folder())
TEXTS = RuleTexts((RULES,))


def machine(name: str, changes: Mapping[str, Any] | None = None) -> Snapshot:
    """A machine of rules/bases with facts changed by dotted path."""
    snapshot = base(RULES, name)
    for path, value in (changes or {}).items():
        snapshot = edit(snapshot, path, value)
    return snapshot


def finding(
    rule: str,
    family: str = "driver",
    severity: Severity = Severity.ERROR,
    confidence: Confidence = Confidence.CERTAIN,
    title: str = "A thing is wrong",
    message: str = "This is what is wrong.",
    evidence: tuple[Evidence, ...] = (),
    consequences: tuple[str, ...] = (),
) -> Finding:
    layer = TEXTS.read(rule).layer if rule in TEXTS.ids else None
    return Finding(rule, family, severity, confidence, title, message, evidence, (), ("https://example.com/doc",), consequences, layer)


def verdict(rule: str, outcome: Outcome, reason: str = "", section: str | None = None) -> Verdict:
    return Verdict(rule, outcome, reason, section=section)


def healthy(name: str) -> Report:
    return finish((), (verdict("driver-missing", Outcome.OK), verdict("gpu-mig", Outcome.NOT_APPLICABLE, "gpus: none")), machine(name))


def driver_old() -> Report:
    """An old driver under a new build: two ways out, one of them a plan for three tools."""
    changes = {
        "driver.version": "535.183.01", "driver.library_version": "535.183.01", "driver.cuda": "12.2", "driver.flavour": "proprietary",
        "cuda_driver.driver_version": "12.2", "torch.version": "2.15.0+cu132", "torch.cuda": "13.2",
        "devices": {"available": False, "count": 0, "warnings": ["The NVIDIA driver on your system is too old (found version 12020)."]},
        "live": {"missing": "skipped", "reason": "torch sees no GPU"},
    }  # fmt: skip
    cause = finding(
        "driver-too-old",
        title="The NVIDIA driver is older than this torch build needs",
        message="Driver 535.183.01 offers CUDA up to 12.2; torch 2.15.0+cu132 is built for CUDA 13.2, which needs 580.65.06 or newer.",
        evidence=(Evidence("/sys/module/nvidia/version", "535.183.01"), Evidence("torch/version.py", "cuda = '13.2'")),
        consequences=("torch-cuda-unavailable",),
    )
    index = "--index-url https://download.pytorch.org/whl/cu126"
    commands = Commands(
        (f"/venv/bin/python -m pip install {index} torch==2.15.0 torchvision==0.30.0",),
        (f"uv pip install --python /venv/bin/python {index} torch==2.15.0 torchvision==0.30.0",),
    )
    reason = {"conda": "conda-forge has no build of torch 2.15 for CUDA 12.6"}
    fixes = (
        Fix(
            "Install torch 2.15.0 built for CUDA 12.6",
            "user",
            "install",
            commands,
            "",
            True,
            "About 2.6 GB to download.",
            reason,
            Grade.CHECKED,
        ),
        Fix(
            "Update the NVIDIA driver to 580.65.06 or newer",
            "admin",
            "manual",
            Commands((), (), (), ("sudo apt-get install nvidia-driver-580-open", "sudo reboot")),
            "Install the packaged driver of branch 580 or newer, then reboot.",
            True,
            grade=Grade.CHECKED,
        ),
    )
    why = (
        "A CUDA build of torch needs a driver of the same CUDA major version or newer. Within a major version an older driver\n"
        "works (minor-version compatibility); across major versions it does not.\n\n"
        "To check by hand, compare nvidia-smi with torch.version.cuda."
    )
    plan = PlanReport(
        (Way(commands, True, "Change the build", ("torch 2.15.0+cu132 -> 2.15.0+cu126",), "", "user", reason),),
        (Excluded("torch 2.15.0+cu130", "needs driver 580.65.06 or newer"),),
    )
    verdicts = (
        verdict("driver-too-old", Outcome.HIT),
        verdict("torch-cuda-unavailable", Outcome.HIT),
        verdict("torch-missing", Outcome.OK),
    )
    return finish((Reported(cause, fixes, why),), verdicts, machine("rtx4090", changes), live_requested=False, plan=plan)


def mixed() -> Report:
    """Eight GPUs: a hang, a possible error, warnings, an info, rules that cannot tell, things not proved."""
    live = {
        "status": "hang",
        "reason": "rank 1 did not enter all_reduce within 20 s",
        "backend": "nccl",
        "world_size": 2,
        "start_method": "fork",
        "stages": ["start", "device", "store", "init", "barrier", "all_reduce"],
        "ranks": [
            {"rank": 0, "pid": 71, "last_stage": "all_reduce", "stages": [{"name": "all_reduce", "seconds": None, "status": "hang"}]},
            {
                "rank": 1,
                "pid": 72,
                "last_stage": "barrier",
                "stages": [{"name": "barrier", "seconds": 0.1}],
                "stack": "File train.py, line 3",
            },
        ],
        "arms": [
            {"name": "gloo-loopback", "backend": "gloo", "device": "cpu", "world_size": 2, "status": "pass"},
            {"name": "nccl", "backend": "nccl", "device": "cuda", "world_size": 8, "status": "hang"},
        ],
        "not_proved": ["transport between nodes", "NCCL over InfiniBand"],
    }
    rows = (
        Reported(
            finding(
                "live-hang",
                "live",
                title="The live check hangs",
                message="Rank 1 did not enter all_reduce; rank 0 waits there.",
                evidence=tuple(Evidence(f"rank {rank}", f"stack of rank {rank}: " + "frame " * 60) for rank in range(5)),
            ),
            (Fix("", text="Run again with NCCL_DEBUG=INFO.", commands=Commands((), (), (), ("NCCL_DEBUG=INFO envcheck --live full",))),),
            "One rank waits for ever where another one never comes.",
        ),
        Reported(
            finding("nccl-p2p-blocked", "comm", Severity.ERROR, Confidence.LIKELY, "GPU-to-GPU copies may be blocked", "ACS may be on.")
        ),
        Reported(
            finding("shm-small", "limits", Severity.WARNING, title="/dev/shm is small", message="64 MiB of shared memory."),
            (
                Fix(
                    "Start the container with more shared memory",
                    kind="env",
                    commands=Commands((), (), (), ("docker run --shm-size=8g IMAGE",)),
                ),
            ),
        ),
        Reported(finding("gpu-mig", "gpu", Severity.INFO, title="MIG is on", message="GPU 3 is split into 2 instances.")),
    )
    verdicts = (
        *(verdict(row.finding.rule, Outcome.HIT) for row in rows),
        *(
            verdict(rule, Outcome.UNKNOWN, "NVML did not answer within 5 s", "gpus")
            for rule in ("gpu-xid", "gpu-throttled", "gpu-busy", "gpu-lost")
        ),
        verdict("memlock-low", Outcome.CRASHED, "KeyError: 'x'"),
        verdict("torch-missing", Outcome.OK),
    )
    return finish(
        rows, verdicts, machine("h100x8", {"live": live}), assumed=("driver.version = 580.95.05",), timings={"import": 3.25, "total": 9.5}
    )


def cannot_tell() -> Report:
    """A GPU host whose CUDA child did not come back, and nothing found."""
    changes = {
        "devices": {"missing": "timeout", "reason": "CUDA did not initialise within 30 s"},
        "live": {"missing": "failed", "reason": "the ranks were not started"},
    }
    unknown = (verdict("gpu-kernel-failed", Outcome.UNKNOWN, "devices: CUDA did not initialise within 30 s", "devices"),)
    return finish((), unknown, machine("rtx4090", changes), decides=decisions(unknown, TEXTS))


HOSTILE = (
    "a[red]b[/red] \x1b[31mred\x1b[0m <b>&amp;</b> ]]> `tick` ``` ::error::x %0A \u202egnp.exe\u202c \udcff \x00 \r\n| cell | ﷺ 漢字 |"
)


def hostile() -> Report:
    """Every text that a machine can supply holds markup, escapes and control characters."""
    changes = {
        "python.executable": f"/venv/{HOSTILE}", "system.distribution": HOSTILE, "driver.version": HOSTILE, "torch.version": HOSTILE,
        "gpus.devices.0.name": HOSTILE, "devices": {"available": None, "error": HOSTILE}, "live": {"missing": "failed", "reason": HOSTILE},
        "network.variables.NCCL_X": HOSTILE,
    }  # fmt: skip
    one = Reported(
        finding("driver-too-old", title=HOSTILE, message=HOSTILE, evidence=(Evidence(HOSTILE, HOSTILE),)),
        (Fix(HOSTILE, text=HOSTILE + "!", commands=Commands((f"pip install '{HOSTILE}'",)), note=HOSTILE, no_command={"conda": HOSTILE}),),
        HOSTILE,
    )
    rows = (verdict("driver-too-old", Outcome.HIT), verdict("gpu-xid", Outcome.UNKNOWN, HOSTILE))
    return finish((one,), rows, machine("rtx4090", changes), assumed=(HOSTILE,))


def no_torch() -> Report:
    """A CPU machine without torch."""
    absent = {"missing": "absent", "reason": "no distribution called torch"}
    skipped = {"missing": "skipped", "reason": "torch is not installed"}
    one = Reported(
        finding("torch-missing", "torch", title="torch is not installed", message="No distribution called torch in /venv."),
        (
            Fix(
                "Install torch",
                kind="install",
                commands=Commands(*(((f"{tool} install torch",)) for tool in ("pip", "uv pip", "conda"))),
                proved=True,
                grade=Grade.CHECKED,
            ),
        ),
    )
    changes = {"torch": absent, "backends": skipped, "devices": skipped, "live": skipped}
    return finish((one,), (verdict("torch-missing", Outcome.HIT),), machine("cpu", changes))


def static() -> Report:
    """Metadata alone: nothing was imported."""
    skipped = {"missing": "skipped", "reason": "--static"}
    changes = {
        "torch.import_status": "skipped", "torch.import_seconds": None, "torch.nccl_loaded": None,
        "backends": skipped, "devices": skipped, "live": skipped,
    }  # fmt: skip
    return finish((), (), machine("rtx4090", changes), live_requested=False)


SAMPLES: Mapping[str, Callable[[], Report]] = {
    "cpu": lambda: healthy("cpu"),
    "rtx4090": lambda: healthy("rtx4090"),
    "h100x8": lambda: healthy("h100x8"),
    "driver-old": driver_old,
    "mixed": mixed,
    "cannot-tell": cannot_tell,
    "hostile": hostile,
    "no-torch": no_torch,
    "static": static,
    "empty": lambda: finish((), (), Snapshot()),
}
