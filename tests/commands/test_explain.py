from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from envcheck import cli
from envcheck.commands.bases import example_snapshot
from envcheck.commands.explain import catalogue, execute, explain, nearest
from envcheck.errors import UsageError
from envcheck.facts.record import replace
from envcheck.facts.snapshot import GpusFacts, Missing, SystemFacts
from envcheck.options import parse
from envcheck.render.styled import width_of
from envcheck.report.session import RuleSession
from envcheck.report.titles import general_title
from envcheck.tables.folders import rules_folder

SESSION = RuleSession()

RULE = '''
severity = "error"
confidence = "likely"
since = "0.1"
title = "The {thing} is older than it should be"
message = "{thing} {version} is too old, which is a long sentence that does not fit on one line of eighty columns."
explains = ["other-rule"]
why = """First paragraph,
in two lines.

    $ nvidia-smi -q    # kept as it is

- an item of a list that is so long that it must be wrapped somewhere or it would leave the page to the right
- another"""
confirm = "`nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT --filename=/tmp/there` prints it."
notes = ["One more cause, which takes so many words that they do not fit on one line of eighty columns.", "Another."]
docs = ["https://example.com/a"]
[messages]
other = "The other {thing}."
[[fix]]
kind = "manual"
text = "Update the driver."
who = "admin"
on = ["windows"]
commands = ["sudo reboot"]
[[fix]]
kind = "manual"
text = "Start it otherwise."
not_on = ["windows"]
choose = true
commands = ["docker run --gpus all …", "apptainer exec --nv …"]
[[fix]]
kind = "env"
name = "NCCL_P2P_DISABLE"
value = "1"
beside = { NCCL_IB_DISABLE = "1" }
note = "or leave both as they are: slower, for the GID of {thing}"
[[fix]]
kind = "env"
name = "CUDA_VISIBLE_DEVICES"
[[fix]]
kind = "install"
requirements = ["numpy<2"]
remove = ["numpy"]
note = "Old ABI."
[[fix]]
kind = "torch"
[[example]]
name = "an old thing"
base = "blank"
expect = "hit"
[[example]]
expect = "ok"
'''


@pytest.fixture
def by(tmp_path: Path) -> RuleSession:
    """A catalogue of two rules."""
    for family, rule in (("driver", "thing-too-old"), ("torch", "other-rule")):
        (tmp_path / family).mkdir()
        (tmp_path / family / f"{rule}.toml").write_text(RULE)
    for part in ("compat", "plan"):
        (tmp_path / part).symlink_to(rules_folder(part))
    return RuleSession((tmp_path,))


PAGE = """\
thing-too-old
The … is older than it should be
error, likely: it says what may be, and never fails a run alone; family driver;
since 0.1

First paragraph, in two lines.

    $ nvidia-smi -q    # kept as it is

- an item of a list that is so long that it must be wrapped somewhere or it
would leave the page to the right
- another

Words
  ECC: memory that finds its own bit errors and corrects single ones
  row remapping: a GPU replaces a faulty row of its memory by a spare one, at
    its next reset
  page retirement: older GPUs put a faulty piece of memory out of use; newer
    ones replace it by a spare row (row remapping)
  GID: the address of a port of an InfiniBand or RoCE card; a port has several,
    numbered by an index
  ABI: how compiled code calls other compiled code; what was compiled for
    another one does not load

To confirm:
`nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT --filename=/tmp/there` prints
it.

What it reports, and what to do (in order; a remark # says where a line applies)
Its cases, with example values: `envcheck` or `envcheck diagnose LOG` has yours.
  * {thing} {version} is too old, which is a long sentence that does not fit on
    one line of eighty columns.
    or: The other {thing}.
    One of these; the first that fits is enough:
    1. A torch build that fits the host: `envcheck --fix-suggest` names it.
    2. Linux, macOS: Start it otherwise.
      one of these lines:
        docker run --gpus all …
        apptainer exec --nv …
    3. Set NCCL_P2P_DISABLE=1, NCCL_IB_DISABLE=1, or leave both as they are:
       slower, for the GID of {thing}
        export NCCL_P2P_DISABLE=1
        export NCCL_IB_DISABLE=1
    4. Unset CUDA_VISIBLE_DEVICES
        unset CUDA_VISIBLE_DEVICES
    5. Install numpy<2: Old ABI.
        python -m pip uninstall -y numpy
        python -m pip install 'numpy<2'
    6. Windows: Update the driver. (administrator)
        sudo reboot

When it is cured: run `envcheck` again, or `envcheck diagnose LOG` on the log of
the next run: thing-too-old is no longer reported.

More
  - One more cause, which takes so many words that they do not fit on one line
    of eighty columns.
  - Another.

Leads to
  other-rule

Sources
  https://example.com/a
"""


def test_page(by: RuleSession) -> None:
    assert explain("thing-too-old", by) == PAGE


def test_the_page_of_a_rule_of_a_job_sends_to_the_command_for_jobs() -> None:
    assert "line applies)\nIts cases, with example values: `envcheck fleet` has yours.\n" in page_of("fleet-limits-differ")


def test_a_page_begins_with_what_is_done_on_the_system_of_its_reader(by: RuleSession) -> None:
    page = explain("thing-too-old", by, system="Windows")
    assert "    2. Windows: Update the driver. (administrator)" in page and "    6. Linux, macOS: Start it otherwise." in page
    assert "        $env:NCCL_P2P_DISABLE = '1'\n" in page and "export" not in page


@pytest.mark.parametrize(
    ("word", "near"),
    [("thing-to-old", "thing-too-old"), ("thing_too_old", "thing-too-old"), ("old-one", "thing-too-old"), ("zzz", None), ("", None)],
)
def test_nearest(by: RuleSession, word: str, near: str | None) -> None:
    assert nearest(word, by.texts.ids) == near
    with pytest.raises(UsageError) as caught:
        explain(word, by)
    assert (f"did you mean {near}?" if near else "`envcheck rules` lists them") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unknown_rule_is_one_line_whatever_it_holds(by: RuleSession) -> None:
    with pytest.raises(UsageError) as caught:
        explain("a\nb" * 200, by)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 250


def test_catalogue(by: RuleSession) -> None:
    assert catalogue(by) == (
        "driver\n  thing-too-old  error    The … is older than it should be\n\n"
        "torch\n  other-rule     error    The … is older than it should be\n\n"
        "2 rules; `envcheck explain RULE` says more\n"
    )


def test_catalogue_as_json(by: RuleSession) -> None:
    document = json.loads(catalogue(by, as_json=True))
    assert document["schema"] == 1
    assert [row["rule"] for row in document["rules"]] == ["thing-too-old", "other-rule"]
    first = document["rules"][0]
    assert first["family"] == "driver" and first["confidence"] == "likely"
    assert catalogue(by, as_json=True).isascii()


@functools.cache
def page_of(rule: str) -> str:
    return explain(rule, SESSION)


@pytest.mark.parametrize("rule", sorted(SESSION.texts.ids))
def test_every_rule_has_a_page(rule: str) -> None:
    page = page_of(rule)
    assert page.startswith(f"{rule}\n")
    assert page.endswith("\n") and "\n\n\n" not in page
    reported = page[page.index("What it reports") :].split("\n\n")[0]
    assert not re.search(r"\{\w+\}", reported), "a message without an example that brings it about"


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("This build has no code for the GPU (compute capability {cc})", "This build has no code for the GPU"),
        ("A kernel does not run on GPU {devices}", "A kernel does not run on a GPU"),
        ("A shared library cannot be loaded: {library}", "A shared library cannot be loaded"),
        ("{name} hides every GPU", "A variable hides every GPU"),
        ("Rank {rank} does not reach rank 0", "A rank does not reach rank 0"),
        ("The {thing} fails", "The … fails"),
        ("nvidia-smi does not answer", "nvidia-smi does not answer"),
    ],
)
def test_a_title_without_the_facts_of_a_case(title: str, shown: str) -> None:
    assert general_title(title) == shown


@pytest.mark.parametrize("rule", sorted(SESSION.texts.ids))
def test_a_page_does_not_speak_of_the_hardware_of_an_example_as_if_it_were_here(rule: str) -> None:
    page, examples = page_of(rule), SESSION.texts.read(rule).examples
    reported = page[page.index("What it reports") :].split("\n\n")[0].replace("\n   ", "")
    assert not any(name in reported for example in examples if example["expect"] == "hit" for name in hardware(example))


def hardware(example: Mapping[str, Any]) -> set[str]:
    """What the machine of an example is made of."""
    machine = example_snapshot(rules_folder(), example)
    gpus = machine.gpus.devices if isinstance(machine.gpus, GpusFacts) else ()
    other = [name for section in (machine.rocm, machine.xpu) if not isinstance(section, Missing) for name in section.names]
    cpu = machine.system.cpu_model if isinstance(machine.system, SystemFacts) else None
    return {name for name in (*(gpu.name for gpu in gpus), *other, cpu) if name}


def test_a_gpu_of_an_example_is_a_gpu_and_the_names_of_examples_stay_out() -> None:
    page = explain("gpu-busy", SESSION)
    assert "* A GPU has " in page
    assert not any(example.get("name", "-") in page for example in SESSION.texts.read("gpu-busy").examples)


def test_real_catalogue_has_every_rule() -> None:
    document = json.loads(catalogue(SESSION, as_json=True))
    assert {row["rule"] for row in document["rules"]} == set(SESSION.texts.ids)
    assert "limits" in next(row["needs"] for row in document["rules"] if row["rule"] == "shm-small")


def test_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(parse(["rules", "--json"])) == 0
    json.loads(capsys.readouterr().out)
    with pytest.raises(UsageError):
        execute(parse(["explain", "no-such-thing-at-all"]))


def test_a_family_lists_its_rules() -> None:
    shown = explain("Driver", SESSION)
    listed = re.findall(r"^  envcheck explain (\S+)  +\S", shown, re.MULTILINE)
    assert listed == [rule for rule in SESSION.texts.ids if SESSION.texts.family(rule) == "driver"] and len(listed) > 3


@pytest.mark.parametrize(("language", "width"), [("", 40), ("zh", 80)])
def test_lists_of_rules_fit_a_terminal_and_are_a_line_each_elsewhere(language: str, width: int) -> None:
    by = replace(SESSION, language=language)
    lists = [(catalogue(by, width=width), catalogue(by))]
    lists += [(explain(words, by, width), explain(words, by)) for words in ("fleet", "torch", "no gpu")]
    for narrow, plain in lists:
        prose = [line for line in narrow.splitlines() if line.startswith("  ") and (width > 60 or " explain " not in line)]
        assert prose and max(map(width_of, prose)) <= width
        assert [*"".join(narrow.split())] == [*"".join(plain.split())]


@pytest.mark.parametrize("rule", ["nccl-shm-small", "visible-devices-empty", "libcuda-unresponsive"])
def test_the_commands_of_a_page_are_the_same_in_chinese(rule: str) -> None:
    confirm = SESSION.texts.read(rule).confirm
    page = explain(rule, replace(SESSION, language="zh"))
    assert [one for one in re.findall(r"`[^`]+`", confirm) if one not in page] == []
    assert page.count("\n        ") == page_of(rule).count("\n        ")


def test_the_address_of_a_page(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVCHECK_DOCS_URL", raising=False)
    assert cli.main(["explain", "--url", "driver-too-old", "Torch-Missing"]) == 0
    assert capsys.readouterr().out == "http://127.0.0.1:8000/rules/driver-too-old/\nhttp://127.0.0.1:8000/rules/torch-missing/\n"
    monkeypatch.setenv("ENVCHECK_DOCS_URL", "https://docs.example/envcheck")
    assert cli.main(["explain", "--url", "driver-too-old"]) == 0
    assert capsys.readouterr().out == "https://docs.example/envcheck/rules/driver-too-old/\n"
    assert cli.main(["explain", "--url", "driver-too-odd"]) == 2
    assert "did you mean driver-too-old?" in capsys.readouterr().err


# Words of earlier texts that readers stumbled over. Reports of those versions are still read: envcheck/read/own_*.py keeps them.
STUMBLED = re.compile(
    r"proved on these facts|Nothing is to be changed|Nothing stands in the way|where it is looked for|rule of last resort"
    r"|behind the back of|neither shown nor disproved|\bmostly\b|\b(?:was|is) due\b|in order in themselves|near relative|not meant to be"
)


def test_no_text_says_what_readers_stumbled_over() -> None:
    root = Path(__file__).parents[2]
    rules = root / "rules"  # a checkout may lie in a folder called lang
    files = [
        *(root / "envcheck").rglob("*.py"),
        *(path for path in rules.rglob("*.toml") if "lang" not in path.relative_to(rules).parts),
    ]
    assert len(files) > 400
    found = [
        (path.name, said[0]) for path in files if not path.name.startswith("own_") for said in STUMBLED.finditer(path.read_text("utf-8"))
    ]
    assert found == []
