from __future__ import annotations

import html
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_reports import report_of
from report_samples import SAMPLES, driver_old, healthy, hostile, machine, mixed

from envcheck.commands.terminal import page_options
from envcheck.engine.rule import Severity
from envcheck.facts.printable import ascii_only, one_line, visible
from envcheck.options import parse
from envcheck.planner.result import Commands
from envcheck.render import FORMATS, render
from envcheck.render import text as text_renderer
from envcheck.render.styled import Styled
from envcheck.render.text import PageOptions
from envcheck.render.wording import command_groups, in_short, note_of, verdict_line
from envcheck.report.report import finish
from envcheck.report.stack import Mark, accelerator, stack

Golden = Callable[[str, str], None]
OBEYED = "\x1b]0;owned\x07\u202e"  # a title for the terminal's window, and text that runs to the left


@pytest.mark.parametrize("name", SAMPLES)
def test_golden(name: str, golden: Golden) -> None:
    golden(f"text/{name}.txt", text_renderer.render(SAMPLES[name](), options=PageOptions(80)))


def test_golden_of_all_commands(golden: Golden) -> None:
    golden("text/driver-old.fix-suggest.txt", text_renderer.render(driver_old(), fix_suggest=True, options=PageOptions(80)))


def test_golden_wide_and_ascii(golden: Golden) -> None:
    golden("text/mixed.120.txt", text_renderer.render(mixed(), options=PageOptions(120)))
    golden("text/mixed.ascii.txt", text_renderer.render(mixed(), options=PageOptions(80, unicode=False)))


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [40, 80, 120])
def test_last_line_is_the_verdict_and_lines_fit(name: str, width: int) -> None:
    from rich.cells import cell_len

    report = SAMPLES[name]()
    shown = text_renderer.render(report, options=PageOptions(width))
    lines = shown.split("\n")
    assert lines[-2:] == [verdict_line(report), ""], "whole, for `tail -n 1`"
    words = ("pip install", "sudo ", "Ready", "No problem", "Not ready", "Cannot tell", "envcheck --live", "docker run", "conda install")
    assert [line for line in lines if cell_len(line) > width and not any(word in line for word in words)] == []
    assert not any(line != line.rstrip() for line in lines)


@pytest.mark.parametrize("name", ["cpu", "rtx4090", "h100x8"])
def test_healthy_is_short_and_plain(name: str) -> None:
    shown = text_renderer.render(healthy(name))
    assert len(shown.splitlines()) <= 20
    assert shown.splitlines()[-1].startswith("Ready to train: torch 2.14.1+")
    assert not re.search(r"(?i)error|warn|fail|✗|\?|!", shown)


def test_no_escape_without_colour_and_some_with_it() -> None:
    assert "\x1b" not in text_renderer.render(hostile())
    coloured = text_renderer.render(mixed(), options=PageOptions(80, is_tty=True, color=True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == text_renderer.render(mixed())


def test_names_of_arms_are_a_strangers_words_too() -> None:
    rest = {"backend": "gloo", "device": "cpu", "world_size": 2, "status": "pass", "reason": "", "seconds": 1.0, "ranks": []}
    arm = {"name": f"x{OBEYED}", "part": f"training{OBEYED}", **rest}
    live = {"status": "pass", "arms": [arm, {**arm, "name": f"y{OBEYED}"}]}
    shown = text_renderer.render(finish((), (), machine("cpu", {"live": live})), options=PageOptions(80))
    assert "training\\x1b]0;owned\\x07\\u202e" in shown and f"y{OBEYED}" not in shown
    assert not set(OBEYED) & set("\x1b\x07\u202e") & set(shown)


def test_markup_of_machine_text_is_text() -> None:
    shown = text_renderer.render(hostile(), options=PageOptions(80, True, True))
    assert "[red]b[/red]" in re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "\\x1b[31mred" in re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert "\u202e" not in shown and "\x00" not in shown
    shown.encode("utf-8")


def test_ascii_only_for_streams_that_cannot() -> None:
    assert text_renderer.render(hostile(), options=PageOptions(unicode=False)).isascii()


class Stream(io.StringIO):
    def __init__(self, tty: bool, encoding: str) -> None:
        super().__init__()
        self._tty = tty
        self._encoding = encoding

    def isatty(self) -> bool:
        return self._tty

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


@pytest.mark.parametrize(
    ("stream", "env", "expected"),
    [
        (Stream(False, "utf-8"), {}, PageOptions(80, False, False, True)),
        (Stream(True, "utf-8"), {"COLUMNS": "100"}, PageOptions(100, True, True, True)),
        (Stream(True, "utf-8"), {"COLUMNS": "100", "NO_COLOR": "1"}, PageOptions(100, True, False, True)),
        (Stream(True, "ascii"), {"TERM": "dumb", "COLUMNS": "9999"}, PageOptions(120, True, False, False)),
        (Stream(True, "latin-1"), {"COLUMNS": "x"}, PageOptions(80, True, True, False)),
        (Stream(False, "utf-8"), {"COLUMNS": "10", "NO_COLOR": ""}, PageOptions(40, False, False, True)),
        (Stream(False, "utf-8"), {"FORCE_COLOR": "1"}, PageOptions(80, False, True, True)),
        (Stream(False, "utf-8"), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, PageOptions(80, False, False, True)),
        (None, {"FORCE_COLOR": "1", "COLUMNS": "200"}, PageOptions(80, False, False, True)),
    ],
)
def test_options_of_a_stream(stream: Stream | None, env: dict[str, str], expected: PageOptions) -> None:
    assert page_options(stream, env, parse([])) == expected


@pytest.mark.parametrize(("word", "color"), [("always", True), ("never", False)])
def test_the_flag_decides_about_colour_before_the_variables(word: str, color: bool) -> None:
    flags = parse(["--color", word])
    assert page_options(Stream(True, "utf-8"), {"NO_COLOR": "1"}, flags).color is color
    assert page_options(Stream(False, "utf-8"), {"FORCE_COLOR": "1"}, flags).color is color
    assert page_options(None, {}, flags).color is color


def test_quiet_says_nothing_where_all_is_well() -> None:
    assert text_renderer.render(healthy("cpu"), options=PageOptions(quiet=True)) == ""
    shown = text_renderer.render(mixed(), options=PageOptions(quiet=True))
    whole = text_renderer.render(mixed())
    assert shown.splitlines()[-1] == whole.splitlines()[-1] and "target  " not in shown
    loud = [one.finding for one in mixed().findings if one.finding.severity is not Severity.INFO]
    assert loud and all(f"[{one.rule}]" in shown for one in loud)


def test_verbose_leaves_nothing_out() -> None:
    shown = " ".join(text_renderer.render(mixed(), options=PageOptions(verbose=True)).split())
    assert "has them all" not in shown
    for one in mixed().findings:
        for evidence in one.finding.evidence:
            assert " ".join(evidence.text.split())[:60] in shown


def test_the_verdict_without_torch_and_without_the_rule_that_would_say_so() -> None:
    """`--ignore torch-missing`: no build is named as if one were there, and what could not be read is not called absent."""
    gone = machine("cpu", {"torch": {"missing": "absent", "reason": "none"}, "live": {"missing": "skipped", "reason": "no torch"}})
    assert verdict_line(finish((), (), gone, live_requested=False)) == "The selected rules found nothing; PyTorch is not installed"
    unread = machine("cpu", {"torch": {"missing": "skipped", "reason": "not stated"}, "live": {"missing": "skipped", "reason": "off"}})
    assert "not installed" not in verdict_line(finish((), (), unread, live_requested=False))


@pytest.mark.parametrize(
    ("live", "said"),
    [
        ({"status": "inconclusive", "reason": "no time was left for it"}, "the live check did not decide"),
        ({"missing": "skipped", "reason": "off"}, "the live check did not run"),
    ],
)
def test_a_live_check_that_ran_is_not_said_to_be_missing(live: dict[str, str], said: str) -> None:
    assert verdict_line(finish((), (), machine("cpu", {"live": live}), live_requested=False)).endswith(f"; {said}")


def test_commands_are_one_line_each() -> None:
    shown = text_renderer.render(driver_old(), options=PageOptions(40))
    [command] = driver_old().findings[0].fixes[0].commands.pip
    assert command in [line.strip() for line in shown.splitlines()]


def test_command_groups() -> None:
    same, own = ("x install a",), ("y install a",)
    assert command_groups(Commands(same, own), "uv", every=False) == (("", own),)
    assert command_groups(Commands(same, own), "conda", every=False) == (("", same),)
    assert command_groups(Commands(same, own), "conda", every=True) == (("pip", same), ("uv", own))
    assert command_groups(Commands(same, same, own, ("export A=1",)), "pip", every=True) == (
        ("pip, uv", same),
        ("conda", own),
        ("", ("export A=1",)),
    )
    assert command_groups(Commands(same, same, same), "pip", every=True) == (("", same),)
    assert command_groups(Commands(), "pip", every=False) == ()
    assert command_groups(Commands((), (), (), ("reboot",)), "pip", every=False) == (("", ("reboot",)),)


def test_in_short() -> None:
    why = "One thing, e.g. NCCL 2.30. Another\nthing: torch vs. Triton. A third.\n\nMore."
    assert in_short(why) == "One thing, e.g. NCCL 2.30. Another thing: torch vs. Triton."
    assert in_short('It says "failed ... now" here. torch goes on. nvidia-smi too.') == 'It says "failed ... now" here. torch goes on.'
    assert in_short("") == "" and in_short("No end") == "No end"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_through_one_door(name: str) -> None:
    assert render(mixed(), name, fix_suggest=True).endswith("\n")


@given(st.text())
def test_visible_never_raises_and_is_printable(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not any((ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0 or char in "\u202e\u2066\u2028" for char in shown)
    assert "\n" not in one_line(text) and len(one_line(text, 10)) <= 10
    assert ascii_only(text).isascii()


def marks(name: str, changes: dict[str, object] | None = None) -> dict[str, Mark]:
    return {layer.name: layer.mark for layer in stack(machine(name, changes), ())}


def test_stack_of_a_cpu_machine() -> None:
    assert marks("cpu") == {"GPU": Mark.NONE, "torch": Mark.OK, "live step": Mark.OK}


def test_only_a_finding_makes_a_layer_bad() -> None:
    without_cuda = {"devices": {"available": False}, "driver.version": None, "driver.module_loaded": False}
    assert marks("rtx4090", without_cuda)["kernels"] is Mark.NONE
    report = finish(driver_old().findings, (), machine("rtx4090", without_cuda))
    layers = {layer.name: layer for layer in stack(report.snapshot, [one.finding for one in report.findings])}
    assert layers["CUDA"].mark is Mark.BAD and layers["CUDA"].rules == ("driver-too-old",)
    assert layers["kernels"].mark is Mark.BAD


def test_stack_says_what_it_does_not_know() -> None:
    lost = {"missing": "timeout", "reason": "no answer"}
    shown = marks("rtx4090", {"driver": lost, "cuda_driver": lost, "devices": lost, "backends": lost, "live": lost, "torch": lost})
    assert shown == {
        "GPU": Mark.OK, "driver": Mark.UNKNOWN, "CUDA": Mark.UNKNOWN, "torch": Mark.UNKNOWN,
        "kernels": Mark.UNKNOWN, "NCCL": Mark.NONE, "live step": Mark.UNKNOWN,
    }  # fmt: skip


EIGHT = "8 × NVIDIA H100 80GB HBM3 (sm_90, 80 GiB)"
BUILD = "2.14.1+cu130"
CRASHED = {"torch.import_status": "crashed"}
MI300X = {"gfx": ["gfx942", "gfx942"], "names": ["AMD Instinct MI300X"], "driver_loaded": True, "version": "6.4"}


def values(name: str, changes: dict[str, object]) -> dict[str, str]:
    return {layer.name: layer.value for layer in stack(machine(name, changes), ())}


OFFERS = "driver offers up to 13.0, torch is built with 13.0"


@pytest.mark.parametrize(
    ("changes", "layer", "value"),
    [
        ({"devices.devices.0.kernel": "wrong"}, "kernels", "1 of 8 devices fail"),
        ({"devices.devices.0.kernel": "unknown"}, "kernels", "right on 7 of 8 devices, not run on the rest"),
        ({"visibility.cuda_visible_devices": "0,1", "visibility.selected": [0, 1]}, "GPU", f"{EIGHT}; 2 of 8 visible"),
        ({"gpus.lost": ["0000:09:00.0: GPU is lost"]}, "GPU", f"{EIGHT}; 1 on the bus without an answer"),
        ({"gpus.devices.7.name": "NVIDIA L4"}, "GPU", "7 × NVIDIA H100 80GB HBM3 (sm_90, 80 GiB) + NVIDIA L4 (sm_90, 80 GiB)"),
        ({"gpus": {"missing": "absent", "reason": "none"}}, "GPU", "8 NVIDIA on the PCI bus (driver nvidia), no name or state read"),
        ({"cuda_driver.init_code": 100}, "CUDA", f"{OFFERS}, cuInit answers 100 (no CUDA-capable device is detected)"),
        ({"driver.library_version": "570.10"}, "driver", "580.95.05, open kernel module, libraries 570.10"),
        ({"torch.import_status": "timeout"}, "torch", f"{BUILD}: the import hangs"),
        ({**CRASHED, "torch.import_failure": {"signal": "SIGSEGV"}}, "torch", f"{BUILD}: the import is killed by SIGSEGV"),
        ({"torch.import_status": "error", "torch.import_failure": {"type": "OSError"}}, "torch", f"{BUILD}: the import raises OSError"),
        ({"torch.import_status": "exited"}, "torch", f"{BUILD}: the import ends the interpreter"),
        ({"torch.import_status": "not_torch"}, "torch", "a module of that name which is not PyTorch"),
        ({"backends.nccl": False}, "NCCL", "not in this build of torch"),
        ({"live.status": "fail", "live.ranks.1.last_stage": "init"}, "live step", "fails: rank 1 in init"),
        ({"live.status": "hang", "live.reason": "rank 1 waits"}, "live step", "rank 1 waits"),
    ],
)  # fmt: skip
def test_values(changes: dict[str, object], layer: str, value: str) -> None:
    assert values("h100x8", changes)[layer] == value


@pytest.mark.parametrize(
    ("changes", "kind", "first"),
    [
        ({"rocm": MI300X}, "rocm", "AMD Instinct MI300X (gfx942)"),
        ({"xpu": {"names": ["Intel Arc B580"]}}, "xpu", "Intel Arc B580"),
        ({"mps": {"apple_silicon": True, "chip": "Apple M3"}}, "mps", "Apple M3"),
        ({"driver": {"missing": "timeout", "reason": "no answer"}}, "nvidia", "no NVIDIA driver"),
    ],
)  # fmt: skip
def test_other_accelerators(changes: dict[str, object], kind: str, first: str) -> None:
    snapshot = machine("cpu", changes)
    assert accelerator(snapshot) == kind
    assert stack(snapshot, ())[0].value == first
    assert text_renderer.render(finish((), (), snapshot, live_requested=False))


def test_text_without_colour_does_not_load_rich_and_with_colour_says_the_same() -> None:
    """rich takes a fifth of a static check: a report that goes to a file or a pipe has no use for it."""
    code = (
        "import sys\n"
        "from report_samples import mixed\n"
        "from envcheck.render.text import PageOptions, render\n"
        "plain = render(mixed(), options=PageOptions(80))\n"
        "assert not [name for name in sys.modules if name in ('rich.console', 'rich.text')]\n"
        "colored = render(mixed(), options=PageOptions(80, color=True))\n"
        "import re\n"
        "assert colored != plain and 'rich.console' in sys.modules\n"
        "bare = re.sub('\\x1b\\\\[[0-9;]*m', '', colored)\n"
        "assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines(), bare\n"
    )
    path = os.pathsep.join(entry for entry in sys.path if entry)
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@given(st.text(st.sampled_from("ab   -é漢字👍\u0301x"), max_size=60), st.integers(2, 25))
def test_wrapped_lines_fit_and_lose_only_blanks(text: str, width: int) -> None:
    lines = list(Styled((text[:7], "bold"), text[7:]).wrapped(width))
    assert all(line.width <= width for line in lines)
    assert "".join(line.plain for line in lines).replace(" ", "") == text.replace(" ", "")
    assert not any(line.plain != line.plain.rstrip() for line in lines)


def test_what_a_rule_says_of_its_command_stands_with_it_in_a_short_report() -> None:
    """That a line moves torch, or builds for hours, is not for --fix-suggest alone."""
    for form in ("text", "markdown", "html"):
        page = re.sub(r"\\|\s+", " ", html.unescape(render(report_of("vllm-pin"), form)))
        assert re.search("this brings torch==2.8.0 in place of 2.14.1 ?", page)
        assert "which needs nvcc and can take hours" in re.sub(r"\s+", " ", render(report_of("flash-attn-mismatch"), form))
    checked = report_of("driver-too-old").findings[0].fixes[0]
    assert checked.note and note_of(checked, False) == "" and note_of(checked, True) == checked.note
