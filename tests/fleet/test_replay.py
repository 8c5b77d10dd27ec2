"""Recordings of many machines as one report: who is odd, in what, and what to run there; the same bytes however the work is spread."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from fleet_hosts import base, changed
from hypothesis import given
from hypothesis import strategies as st

from envcheck.errors import UsageError
from envcheck.facts.hostlist import unfold
from envcheck.fleet import recordings
from envcheck.fleet.replay import judge_recordings
from envcheck.fleet.spread import Local, OnRay
from envcheck.render.fleet import FORMATS, render_fleet
from envcheck.report.fleet import FleetReport
from envcheck.report.session import rule_session

ROOT = Path(__file__).parent.parent.parent
BY = rule_session()


def document(host: str | None, changes: dict[str, Any] | None = None) -> dict[str, Any]:
    facts = changed(base("h100x8"), changes or {})
    facts["network"]["hostname"] = host
    return {"schema": 1, "facts": facts, "live": None}


def folder(place: Path, hosts: dict[str, dict[str, Any]]) -> Path:
    place.mkdir(exist_ok=True)
    for host, changes in hosts.items():
        (place / f"{host}.json").write_text(json.dumps(document(host, changes)), encoding="utf-8")
    return place


def report_on(*paths: Path, **more: Any) -> FleetReport:
    return judge_recordings([str(path) for path in paths], BY, **more)


def told(report: FleetReport) -> dict[str, tuple[str, ...]]:
    return {one.finding.rule: one.hosts for one in report.findings}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    """300 hosts with seven drifts, and who has which."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import fleet_replay
    finally:
        sys.path.pop(0)
    path = tmp_path_factory.mktemp("fleet") / "fleet.jsonl"
    return path, fleet_replay.write(path, 300, seed=7)


def test_seven_drifts_among_three_hundred_hosts_are_told_each_with_its_hosts(fleet: tuple[Path, dict[str, list[str]]]) -> None:
    path, odd = fleet
    report = report_on(path)
    found = told(report)
    assert {rule: list(found.get(rule, ())) for rule in odd} == odd
    drifts = {rule for rule in found if rule.startswith("fleet-")}
    assert drifts == set(odd), "a drift that nobody made"
    assert len(report.hosts) == 300
    assert report.unread == ()
    assert report.exit_code == 4  # the sick hosts and the one with another torch; the others would go
    sick = {"gpu-ecc-error", "gpu-row-remap"}
    assert sick <= set(found)


def test_eight_hosts_of_which_one_is_odd_say_who_what_and_what_to_run_in_ten_lines(tmp_path: Path) -> None:
    old = {"torch.version": "2.13.0+cu130", "packages.distributions.0.version": "2.13.0+cu130"}
    place = folder(tmp_path / "job", {f"n{number}": old if number == 5 else {} for number in range(1, 9)})
    top = render_fleet(report_on(place), "text").splitlines()[:10]
    text = "\n".join(top)
    assert "n5" in text
    assert "torch 2.13.0+cu130 on n5, 2.14.1+cu130 on 7 others" in text
    assert "pip install torch==2.14.1" in text
    assert "without n5 the other 7 would go" in text


def test_a_healthy_fleet_passes_and_says_that_nothing_was_tried(tmp_path: Path) -> None:
    report = report_on(folder(tmp_path / "job", {f"n{number}": {} for number in range(4)}))
    assert (report.verdict, report.exit_code, report.findings, report.distinct) == ("pass", 0, (), 1)
    assert "nothing was tried" in render_fleet(report, "text")


def test_what_all_hosts_have_is_no_bad_host(tmp_path: Path) -> None:
    report = report_on(folder(tmp_path / "job", {f"n{number}": {"gpus.devices.0.remap_failed": True} for number in range(3)}))
    assert (report.verdict, report.exit_code, report.bad_hosts) == ("fail", 1, ())
    assert told(report) == {"gpu-row-remap": ("n0", "n1", "n2")}


def test_halves_have_no_majority_and_nobody_is_named_bad(tmp_path: Path) -> None:
    place = folder(tmp_path / "job", {f"n{number}": {"torch.nccl": "2.26.2"} if number > 2 else {} for number in range(1, 5)})
    [one] = [one for one in report_on(place).findings if one.finding.rule == "fleet-nccl-differs"]
    assert one.hosts == ()
    assert "2.26.2 on n[3-4]" in one.finding.message
    assert "on n[1-2]" in one.finding.message
    assert report_on(place).exit_code == 1


def test_a_golden_host_is_right_even_where_most_are_not(tmp_path: Path) -> None:
    new = {"system.kernel": "6.8.0-99-generic"}
    place = folder(tmp_path / "job", {f"n{number}": new if number < 4 else {} for number in range(5)})
    golden = tmp_path / "node.json"
    golden.write_text(json.dumps(document("golden")), encoding="utf-8")
    report = report_on(place, golden=str(golden))
    assert told(report) == {"fleet-systems-differ": ("n0", "n1", "n2", "n3")}
    assert "6.8.0-45-generic on the golden host" in report.findings[0].finding.message
    assert report.fleet.golden
    alone = report_on(folder(tmp_path / "one", {"n1": {"torch.version": "2.13.0+cu130"}}), golden=str(golden))
    assert told(alone)["fleet-torch-differs"] == ("n1",)


def test_a_golden_host_that_none_is_like_and_none_that_all_are_like(tmp_path: Path) -> None:
    golden = tmp_path / "node.json"
    golden.write_text(json.dumps(document("golden")), encoding="utf-8")
    assert report_on(folder(tmp_path / "same", {"n1": {}, "n2": {}}), golden=str(golden)).findings == ()
    with pytest.raises(UsageError, match=r"--golden .*not JSON"):
        golden.write_text("{", encoding="utf-8")
        report_on(tmp_path / "same", golden=str(golden))


def test_a_sick_host_is_judged_apart_from_hosts_of_the_same_kind(tmp_path: Path) -> None:
    place = folder(tmp_path / "job", {"n1": {}, "n2": {"gpus.devices.3.remap_failed": True}, "n3": {}})
    report = report_on(place)
    assert told(report) == {"gpu-row-remap": ("n2",)}
    assert report.distinct == 2
    assert (report.exit_code, report.bad_hosts) == (4, ("n2",))


def test_hosts_with_the_same_trouble_in_other_words_are_one_finding(tmp_path: Path) -> None:
    sick = {f"n{number}": {f"gpus.devices.{number}.remap_failed": True} for number in range(1, 4)}
    [one] = report_on(folder(tmp_path / "job", {**sick, **{f"n{number}": {} for number in range(4, 9)}})).findings
    assert one.hosts == ("n1", "n2", "n3")
    assert sorted(case.hosts for case in one.cases) == [("n1",), ("n2",), ("n3",)]
    assert {case.message.partition(" (")[0] for case in one.cases} == {"GPU 1", "GPU 2", "GPU 3"}


def test_what_is_no_recording_is_named_and_leaves_the_verdict_open(tmp_path: Path) -> None:
    place = folder(tmp_path / "job", {"n1": {}, "n2": {}})
    (place / "n3.json").write_text("{", encoding="utf-8")
    (place / "n4.json").write_text('{"schema": 2}', encoding="utf-8")
    (place / "n5.json").write_bytes(b"\xff")
    (place / "n6.json").write_text(json.dumps(document("n6", {"driver.version": 5})), encoding="utf-8")
    (place / "notes.txt").write_text("not asked for", encoding="utf-8")
    report = report_on(place)
    assert [Path(one.name).name for one in report.unread] == ["n3.json", "n4.json", "n5.json", "n6.json"]
    assert (report.verdict, report.exit_code) == ("inconclusive", 3)
    with pytest.raises(UsageError, match="no recording of a machine"):
        report_on(folder(tmp_path / "none", {}))
    with pytest.raises(UsageError, match="no such file or folder"):
        report_on(tmp_path / "nowhere")


EDITED = [
    ("gpus.devices", 5, "gpus.devices"),
    ("gpus.devices.0.throttle_reasons", float("nan"), "throttle_reasons"),
    ("gpus.devices.0.nvlink_peers", ["a"], "nvlink_peers"),
    ("network.interfaces", True, "network.interfaces"),
    ("network.interfaces.0.addresses", 1, "addresses"),
    ("network.addresses", 7, "network.addresses"),
]


@pytest.mark.parametrize(("fact", "value", "named"), EDITED)
def test_one_recording_that_somebody_edited_does_not_end_the_run(tmp_path: Path, fact: str, value: object, named: str) -> None:
    place = folder(tmp_path / "job", {"n1": {}, "n2": {}})
    whole = document("n3")
    at = whole["facts"]
    *heads, last = fact.split(".")
    for head in heads:
        at = at[int(head)] if isinstance(at, list) else at[head]
    at[last] = value
    (place / "n3.json").write_text(json.dumps(whole), encoding="utf-8")
    report = report_on(place)
    assert [(Path(one.name).name, named in one.reason) for one in report.unread] == [("n3.json", True)], report.unread
    assert (report.exit_code, report.findings) == (3, ())
    with pytest.raises(UsageError, match=named):
        report_on(tmp_path / "job", golden=str(place / "n3.json"))


def test_a_value_of_millions_of_characters_is_told_by_its_beginning(tmp_path: Path) -> None:
    """Two that begin alike are not the same."""
    long = {f"n{number}": {"torch.path": "/x" * 1_000_000 + str(number > 2)} for number in range(1, 6)}
    report = report_on(folder(tmp_path / "job", long))
    assert told(report) == {"fleet-code-differs": ("n1", "n2")}
    assert all(len(render_fleet(report, form)) < 60_000 for form in FORMATS)


def test_recordings_of_one_name_are_all_told(tmp_path: Path) -> None:
    """Pods may have one host name, and a host may have been recorded twice."""
    lines = [document("pod"), document("pod"), document(None), document("pod", {"system.kernel": "1"})]
    path = tmp_path / "all.jsonl"
    path.write_text("\n\n".join(json.dumps(one) for one in lines) + "\n", encoding="utf-8")
    report = report_on(path)
    assert report.hosts == ("all:5", f"pod@{path}:1", f"pod@{path}:3", f"pod@{path}:7")
    assert told(report) == {"fleet-systems-differ": (f"pod@{path}:7",)}


@pytest.mark.parametrize(
    ("name", "lines", "label"),
    [
        ("inv.jsonl", 3, "pod@inv.jsonl:[1-3]"),
        ("inv.ndjson", 12, "pod@inv.ndjson:[1-12]"),
        ("inv.2026-11.jsonl", 2, "pod@./inv.2026-11.jsonl:[1-2]"),
        ("a.json", 1, "pod@a.json"),
        ("a.com", 1, "pod@./a.com"),
    ],
)
def test_recordings_of_one_name_are_no_addresses_of_e_mail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, lines: int, label: str
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (json.dumps(document("pod")) + "\n") * lines
    Path(name).write_text(text, encoding="utf-8")
    Path("other").mkdir()
    Path("other", "b.json").write_text(json.dumps(document("pod", {"system.kernel": "1"})), encoding="utf-8")
    report = judge_recordings([name, "other"], BY)
    shown = {form: html.unescape(render_fleet(report, form)) for form in FORMATS}
    assert "[e-mail]" not in "".join(shown.values())
    assert all(f"{label},pod@other/b.json" in shown[form] for form in ("text", "json", "html")), shown["text"]
    assert json.loads(shown["json"])["hosts"] == [*unfold(label), "pod@other/b.json"]
    assert all(f'name="{host}"' in shown["junit"] for host in unfold(label))


class OneByOne:
    """The same work in this process."""

    def each(self, load: Any, work: Any, items: Iterable[Any], more: Any = ()) -> Iterator[tuple[Any, Any]]:
        for item in items:
            yield item, work(load(item), BY, *more) if more else work(load(item))


class FakeRay:
    """What `OnRay` needs of Ray. What is sent is pickled, as Ray does."""

    def __init__(self) -> None:
        self.sent = 0

    def remote(self, **_: Any) -> Any:
        import pickle

        def decorate(function: Any) -> Any:
            class Remote:
                @staticmethod
                def remote(*values: Any) -> bytes:
                    self.sent += 1
                    return pickle.dumps(function(*pickle.loads(pickle.dumps(values))))  # noqa: S301 - its own

            return Remote

        return decorate

    def get(self, reference: bytes) -> Any:
        import pickle

        return pickle.loads(reference)  # noqa: S301 - its own

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 3.0}


def test_the_report_is_the_same_bytes_however_the_work_is_spread(
    fleet: tuple[Path, dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recordings, "PIECE_BYTES", 300_000)
    ray = FakeRay()
    with ExitStack() as keep:
        pool = Local(BY, 2)
        keep.callback(pool.close)
        reports = [report_on(fleet[0], spread=one) for one in (OneByOne(), pool, OnRay(ray, BY))]  # type: ignore[arg-type]
        assert pool.pool is not None, "nothing was spread"
    assert ray.sent > 5
    for form in FORMATS:
        one, *others = [render_fleet(report, form) for report in reports]
        assert others == [one, one], form


def test_the_order_of_the_recordings_does_not_count(fleet: tuple[Path, dict[str, list[str]]], tmp_path: Path) -> None:
    turned = tmp_path / "turned.jsonl"
    lines = fleet[0].read_bytes().splitlines(keepends=True)
    turned.write_bytes(b"".join(reversed(lines)))
    assert render_fleet(report_on(turned), "json") == render_fleet(report_on(fleet[0]), "json")


def test_a_line_without_end_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "PIECE_BYTES", 1 << 20)
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{" * (40 << 20) + b"\n{}\n")
    read = []
    whole = recordings._after_line
    monkeypatch.setattr(recordings, "_after_line", lambda file, at, last: read.append((end := whole(file, at, last)) - at) or end)
    found = [place.line for piece in recordings._lines(str(path)) for place, _ in recordings.documents(piece)]
    assert len(found) == 2, "the long one, and the one behind it"
    assert sum(read) < 3 * (40 << 20)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no devices")
def test_a_device_is_no_recording() -> None:
    with pytest.raises(UsageError, match="neither a file nor a folder"), ExitStack() as keep:
        list(recordings.pieces_of(["/dev/zero"], keep))


def test_a_pipe_and_stdin_are_read_as_they_come(tmp_path: Path) -> None:
    lines = "".join(json.dumps(document(f"n{number}", {"system.kernel": "1"} if number == 2 else {})) + "\n" for number in range(4))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(lines, encoding="utf-8"))
    writer.start()
    assert told(report_on(pipe)) == {"fleet-systems-differ": ("n2",)}
    writer.join()
    command = [sys.executable, "-m", "envcheck", "fleet", "--replay", "-", "--json"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [one["rule"] for one in json.loads(done.stdout)["findings"]] == ["fleet-systems-differ"]


@pytest.mark.parametrize(("given", "why"), [("y\n", "no recording of a machine"), ("\n{\n", "more than the disk of")])
def test_what_never_ends_does_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, why: str) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(recordings, "_free", lambda _: 50_000_000 - sum(one.stat().st_size for one in tmp_path.iterdir()))
    with subprocess.Popen(["yes", given], stdout=subprocess.PIPE) as endless, ExitStack() as keep:
        assert endless.stdout is not None
        with pytest.raises(UsageError, match=why):
            list(recordings.pieces_of([f"/dev/fd/{endless.stdout.fileno()}"], keep))
        endless.kill()
    assert not list(tmp_path.iterdir())


@given(st.lists(st.sampled_from(["", "a", "bb", "ccc" * 9]), max_size=12), st.integers(1, 20), st.booleans())
def test_each_line_is_in_one_piece_whatever_its_size(lines: list[str], size: int, ends: bool) -> None:
    with pytest.MonkeyPatch.context() as patched, ExitStack() as keep:
        import tempfile

        patched.setattr(recordings, "PIECE_BYTES", size)
        place = Path(keep.enter_context(tempfile.TemporaryDirectory())) / "x.jsonl"
        text = "\n".join(lines) + ("\n" if ends else "")
        place.write_text(text, encoding="utf-8")
        found = [one for piece in recordings.pieces_of([str(place)], keep) for one in recordings.documents(piece)]
        assert b"".join(data or b"" for _, data in found) == text.encode()
        assert all(recordings.read_place(at) == data for at, data in found)


def test_a_line_that_is_too_long_is_left_out_and_the_next_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "FACTS_LIMIT_BYTES", 100_000)
    path = tmp_path / "x.jsonl"
    path.write_text("x" * 300_000 + "\n" + json.dumps(document("n1")) + "\n", encoding="utf-8")
    report = report_on(path)
    assert report.hosts == ("n1",)
    assert [one.name for one in report.unread] == [f"{path}:1"]


def test_what_is_no_plain_file_in_a_folder_is_left_out_with_a_line_and_at_once(tmp_path: Path) -> None:
    """A pipe that nobody writes to was waited for a minute, and it or a link to a device ended the whole replay."""
    place = folder(tmp_path / "job", {"n1": {}})
    for name in ("pipe.json", "pipe.jsonl"):
        os.mkfifo(place / name)
    for name, target in (("device.json", os.devnull), ("nothing.jsonl", "/nowhere"), ("loop.ndjson", "loop.ndjson")):
        (place / name).symlink_to(target)
    report = report_on(place)
    assert report.hosts == ("n1",)
    assert sorted(Path(one.name).name for one in report.unread) == [
        "device.json", "loop.ndjson", "nothing.jsonl", "pipe.json", "pipe.jsonl",
    ]  # fmt: skip


def test_the_command_writes_all_documents_at_once_and_has_the_exit_code(tmp_path: Path) -> None:
    place = folder(tmp_path / "job", {"n1": {}, "n2": {"gpus.devices.3.remap_failed": True}, "n3": {}})
    files = [f"-o{form}={tmp_path / form}" for form in FORMATS]
    command = [sys.executable, "-m", "envcheck", "fleet", "--replay", str(place), *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 4, done.stderr
    assert "n2: GPU 3" in done.stdout
    assert json.loads((tmp_path / "json").read_text("utf-8"))["exclude"] == "n2"
    assert all((tmp_path / form).stat().st_size > 100 for form in FORMATS)


@pytest.mark.cluster
def test_a_real_ray_cluster_gives_the_same_bytes(fleet: tuple[Path, dict[str, list[str]]], monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed here: pip install -e '.[ray]'")
    from envcheck.fleet.spread import on_ray

    monkeypatch.setattr(recordings, "PIECE_BYTES", 300_000)
    with on_ray(BY) as cluster:
        spread = report_on(fleet[0], spread=cluster)
    assert render_fleet(spread, "json") == render_fleet(report_on(fleet[0]), "json")


def test_ray_that_is_not_there_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from envcheck.fleet.spread import on_ray

    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="Ray is not installed"), on_ray(BY):
        pass
