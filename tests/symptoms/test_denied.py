"""Messages that somebody says are not there, and the same messages where they are."""

from __future__ import annotations

import pytest

from envcheck.symptoms.scan import Scanner, SymptomTable
from envcheck.tables.folders import rules_folder

TABLE = SymptomTable((rules_folder(),))

_LOST = "GPU has fallen off the bus"
_FAULT = "AMD-Vi: Event logged [IO_PAGE_FAULT"
NOT_THERE = (
    f"No `{_LOST}`",
    f"No {_LOST} in dmesg",
    f'dmesg is clean: none of "NVRM: Xid", "{_LOST}", AER',
    f"without any `{_FAULT}`, neither '{_LOST}'",
    f'Im dmesg keine "{_FAULT}" Zeilen und kein "{_LOST}"',
    f"系统日志里没有 `{_LOST}`，也没有 `{_FAULT}`",
    f"I did not see any `{_LOST}`",
    f"I looked at dmesg and found none of these:\n\n- {_FAULT}\n- {_LOST}\n",
    f"No related errors were seen in the kernel log:\n* No AER\n* {_LOST}",
)
THERE = (
    f"No idea what to do. NVRM: GPU at PCI:0000:41:00: {_LOST}",
    f"There is no NVLink: NVRM: GPU 0000:41:00.0: {_LOST}",
    f"No errors but these:\n- {_LOST}",
    f"No luck so far, dmesg says:\n- {_LOST}",
    f"nvidia 0000:0a:00.0: {_FAULT} domain=0x000f]",
    f"No GPU is shown any more.\n{_LOST}",
)


@pytest.mark.parametrize("text", NOT_THERE)
def test_a_message_that_is_denied_is_none(text: str) -> None:
    assert _rules(text) == set()


@pytest.mark.parametrize("text", THERE)
def test_a_message_beside_another_denial_stays(text: str) -> None:
    assert _rules(text) & {"gpu-lost", "nccl-p2p-blocked"}


def _rules(text: str) -> set[str]:
    scanner = Scanner(TABLE)
    scanner.scan(text, "post")
    return {one.rule for one in scanner.finish().matches}
