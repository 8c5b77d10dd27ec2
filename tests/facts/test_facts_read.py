"""Every fact is read by a rule, the report or the planner, or it is said here why it is taken all the same."""

from __future__ import annotations

import ast
from pathlib import Path

import envcheck
from envcheck.facts import snapshot
from envcheck.facts.record import fields

PACKAGE = Path(envcheck.__file__).parent
TAKING = {"agent", "facts", "host", "probes", "read", "target"}  # rooms that take facts; the others read them
# Read by no attribute. "null" is asked no more and stays in the JSON, whose keys are a contract; everything else costs no question of
# its own, and is what a person looks for in the JSON of a machine that is not at hand.
SHOWN = {
    "algbw_gb_s": "what was measured, before it is made comparable",
    "cmake": "null",
    "compute_capability_source": "where a number comes from",
    "cpu_vendor": "which machine it is",
    "cuda_version": "what the image says it has",
    "cusparselt": "how torch was built",
    "debug": "how torch was built",
    "direct_url": "where a package comes from",
    "driver_model": "WDDM or TCC, on Windows",
    "ecc": "whether errors are counted at all",
    "ecc_uncorrected_aggregate": "the life of a card; gpu-ecc-error judges what happened since the driver was loaded",
    "gcc_path": "where a number comes from",
    "git_version": "which torch it is, to the commit",
    "gloo": "asked for by its name: checks/meta.py",
    "import_noise": "torch printed at import: what reads its output sees that",
    "link_speed": "null",
    "link_width": "null",
    "memlock_hard_bytes": "how far a user may raise the limit",
    "mkl": "how torch was built",
    "mkldnn": "how torch was built",
    "ninja": "null",
    "nvidia_runtime": "whether NVIDIA's container toolkit had a hand in it",
    "openmp": "how torch was built",
    "peermem": "GPUDirect RDMA by nvidia_peermem; newer kernels do without, so its absence is no finding",
    "rate": "of an InfiniBand port; no value is wrong by itself",
    "seconds_ago": "when an Xid was",
    "stack_soft_bytes": "a limit",
    "tmp_free_bytes": "a limit",
    "uptime_seconds": "when the machine was started",
    "user_site_enabled": "whether packages of the user's home are seen",
    "xccl": "asked for by its name: checks/meta.py",
    "ze_affinity_mask": "which Intel GPUs are chosen",
}


def names() -> set[str]:
    records = (one for one in vars(snapshot).values() if isinstance(one, type) and hasattr(one, "__record_fields__"))
    return {field.name for record in records for field in fields(record)}


def read() -> set[str]:
    """Names that the rooms which read facts ask an object for."""
    trees = (
        ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in TAKING
    )
    return {node.attr for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)}


def test_every_fact_is_read_or_said_to_be_shown() -> None:
    assert len(names()) > 300
    unread, now_read = names() - read() - SHOWN.keys(), SHOWN.keys() - (names() - read())
    assert not unread, (
        f"{sorted(unread)}: no rule, report or planner reads these facts of facts/snapshot.py; use them, or say in SHOWN why not"
    )
    assert not now_read, f"{sorted(now_read)}: these are read by now, or are no facts any more: take them out of SHOWN"


def test_what_is_null_is_written_by_nobody() -> None:
    taking = "".join(path.read_text(encoding="utf-8") for room in TAKING - {"facts"} for path in (PACKAGE / room).glob("*.py"))
    for name in (name for name, why in SHOWN.items() if why == "null"):
        written = f"{name}=" in taking or f".{name}" in taking
        assert not written, f"{name}: SHOWN calls it null, and a probe or a reader fills it: say there what it is for"
