"""A hang or a crash of the live check, analysed from the files of the private folder before it is removed, and kept on demand.

Names of the files: ARM-RANK.log (output), .stack (faulthandler), .nccl (NCCL's log), .py-spy; ARM.ras (answer of NCCL's RAS service),
ARM.fr_RANK (Flight Recorder); agent.jsonl, agent.out, agent.err, agent.stack; analysis.json (this module).
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from typing import Any

from envcheck.evidence import flight_recorder, gloo, nccl_diagnostics, nccl_log, ras, stacks
from envcheck.facts.printable import begin_of
from envcheck.facts.record import replace
from envcheck.facts.secrets import mask_secrets, mask_values
from envcheck.facts.snapshot import Arm, Insight, LiveFacts, LiveStatus, Missing, NcclDiagnostics, Snapshot
from envcheck.host.plain_files import put_anew, tail, written

TAIL = 4 << 20  # bytes that are read, and kept, of one file
INSIGHTS = 24
KEPT = (".log", ".stack", ".nccl", ".py-spy", ".ras", ".jsonl", ".json", ".out", ".err")


def with_insights(snapshot: Snapshot, folder: str, executable: str, seconds: float) -> Snapshot:
    """What the files say beyond the ranks' own words, as `live.insights`; also left in the folder as analysis.json."""
    live = snapshot.live
    if isinstance(live, LiveFacts) and (own := diagnostics_of(folder)):
        live = replace(live, nccl_diagnostics=own)
        snapshot = replace(snapshot, live=live)
    if isinstance(live, Missing) or all(arm.status is LiveStatus.PASS for arm in live.arms):
        return snapshot
    analysis = analyse(live, folder, executable, seconds)
    _write(os.path.join(folder, "analysis.json"), json.dumps(analysis, indent=1, sort_keys=True))
    return replace(snapshot, live=replace(live, insights=tuple(_insights(analysis))))


def diagnostics_of(folder: str) -> NcclDiagnostics | None:
    """What NCCL's own diagnostics printed in any rank, whether or not the live check passed."""
    try:
        names = [name for name in sorted(os.listdir(folder)) if name.startswith("nccl") and name.endswith(".log")]
    except OSError:
        return None
    found = nccl_diagnostics.read_diagnostics("\n".join(_text(folder, name) for name in names))
    if found is None:
        return None
    edges = [f"rank {one.source} -> rank {one.target}{' over ' + one.path if one.path else ''}: {one.problem}" for one in found.edges]
    outliers = [f"{mode} rank {rank} ({host}): {got:g} Gbit/s, median {usual:g} Gbit/s" for mode, rank, host, got, usual in found.outliers]
    cut = () if found.completed else ("the report is cut: its last line is missing",)
    return NcclDiagnostics(found.tested, found.passed, tuple(edges), tuple(outliers), (*found.troubles, *cut))


def _write(path: str, text: str) -> None:
    try:
        put_anew(path, text)
    except OSError:
        return  # a full disk: the analysis itself is in the snapshot


def analyse(live: LiveFacts, folder: str, executable: str, seconds: float) -> dict[str, Any]:
    """Every arm: how far each rank came, stacks in groups, what NCCL, gloo, RAS and the recorder said."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        names = []
    recorded = (
        flight_recorder.analyse(folder, executable, min(seconds - 2, flight_recorder.SECONDS)) if flight_recorder.dumps_of(names) else ()
    )
    recorder = {
        _arm_of(live, one.dumps[0].rpartition(".fr_")[0]): {
            "dumps": one.dumps,
            "lines": one.lines,
            "output": one.output,
            "error": one.error,
        }
        for one in recorded
    }
    return {
        "status": live.status.value,
        "reason": live.reason,
        "arms": [_arm(live, arm, folder, names, recorder.get(arm.name)) for arm in live.arms],
    }


def _arm_of(live: LiveFacts, prefix: str) -> str:
    """The arm whose ranks wrote files of this name. Ranks of the full check do one arm after the other and keep their first name:
    they are ended, and asked, in the one that hangs."""
    if any(arm.name == prefix for arm in live.arms):
        return prefix
    return next((arm.name for arm in live.arms if arm.part and arm.status is LiveStatus.HANG), prefix)


def _arm(live: LiveFacts, arm: Arm, folder: str, names: list[str], recorder: Any) -> dict[str, Any]:
    dumps = {rank.rank: _text(folder, f"{arm.name}-{rank.rank}.stack") or rank.stack for rank in arm.ranks if rank.stack}
    groups = stacks.grouped(dumps)
    output = {rank.rank: _text(folder, f"{arm.name}-{rank.rank}.log") or rank.stderr for rank in arm.ranks}
    logs = "\n".join(_text(folder, f"{arm.name}-{rank.rank}.nccl") for rank in arm.ranks) + "\n" + "\n".join(output.values())
    log = nccl_log.read_log(logs) if arm.backend == "nccl" else None
    diagnostics = nccl_diagnostics.read_diagnostics(logs) if arm.backend == "nccl" else None
    answers = [name for name in names if name.endswith(".ras") and _arm_of(live, name[:-4]) == arm.name]
    answer = ras.read_ras(_text(folder, answers[0])) if answers else None
    return {
        "name": arm.name,
        "status": arm.status.value,
        "reason": arm.reason,
        "last_stage": {str(rank.rank): rank.last_stage for rank in arm.ranks},
        "stacks": [{"ranks": group.ranks, "waits": group.waits, "frames": group.frames} for group in groups],
        "suspects": stacks.suspects(groups) if arm.status is LiveStatus.HANG else (),
        "gloo": [
            {"address": one.address, "port": one.port, "printed_port": one.printed, "error": one.error, "loopback": one.loopback}
            for one in gloo.refused("\n".join([*output.values(), *(rank.error for rank in arm.ranks)]))
        ],
        "nccl": log and {"version": log.version, "network": log.network, "transports": log.transports, "gdr": log.gdr,
                         "unfinished_ranks": log.unfinished, "warnings": log.complaints},
        "diagnostics": diagnostics and {"verdict": diagnostics.verdict, "tested": diagnostics.tested, "passed": diagnostics.passed,
                                        "edges": [f"{edge.source}->{edge.target} {edge.path} {edge.problem}" for edge in diagnostics.edges],
                                        "outliers": diagnostics.outliers, "troubles": diagnostics.troubles},
        "ras": answer and {"version": answer.version, "said": answer.said, "text": answer.text},
        "flight_recorder": recorder,
        "py_spy": [name for name in names if name.startswith(f"{arm.name}-") and name.endswith(".py-spy")],
    }  # fmt: skip


def _text(folder: str, name: str) -> str:
    """The end of a file of the private folder; "" where there is none."""
    return tail(os.path.join(folder, name), TAIL)


def _insights(analysis: Mapping[str, Any]) -> list[Insight]:
    """What a reader should see of it without opening the archive, the arms that explain others left out."""
    found: list[Insight] = []

    def say(arm: Mapping[str, Any], source: str, text: str) -> None:
        if len(found) < INSIGHTS:
            found.append(Insight(arm["name"], source, begin_of(text, 400)))

    for arm in analysis["arms"]:
        if arm["status"] == "pass":
            continue
        if arm["suspects"]:
            waiting = next((group for group in arm["stacks"] if group["waits"]), None)
            for group in arm["stacks"]:
                if set(group["ranks"]) & set(arm["suspects"]):
                    where = f"; the others wait in {waiting['frames'][0]}" if waiting and waiting is not group else ""
                    say(arm, "stacks", f"rank {', '.join(map(str, group['ranks']))} is in {group['frames'][0]}{where}")
        for peer in arm["gloo"]:
            loopback = ": that is this machine itself, for every rank that reads it" if peer["loopback"] else ""
            shown = f" (printed as {peer['printed_port']}, bytes exchanged)" if peer["printed_port"] != peer["port"] else ""
            say(arm, "gloo", f"{peer['error']} by {peer['address']} port {peer['port']}{shown}{loopback}")
        if nccl := arm["nccl"]:
            for line in nccl["warnings"][:2]:
                say(arm, "NCCL log", line)
            if nccl["unfinished_ranks"]:
                say(arm, "NCCL log", f"initialisation began and did not end on rank {', '.join(map(str, nccl['unfinished_ranks']))}")
            if nccl["transports"]:
                say(arm, "NCCL log", f"transports: {', '.join(nccl['transports'])}; network: {nccl['network'] or 'none'}")
        if (own := arm["diagnostics"]) and own["verdict"] == "fail":
            say(arm, "NCCL diagnostics", f"{own['passed']} of {own['tested']} peer accesses passed; {'; '.join(own['edges'][:4])}")
        for line in (arm["ras"] or {}).get("said", ())[:4]:
            say(arm, "NCCL RAS", line)
        if recorder := arm["flight_recorder"]:
            telling = [line for line in recorder["lines"] if line.startswith(("missing ranks", "error msg", "Not all ranks"))]
            for line in telling[:4] or filter(None, [recorder["error"]]):
                say(arm, "Flight Recorder", line)
    return found


README = """What envcheck kept of this run.

analysis.json     every arm: last stage of each rank, stacks in groups (the minority is the suspect), what NCCL, gloo, RAS and the
                  Flight Recorder said
snapshot.json     the facts, as `envcheck --facts snapshot.json` takes them
ARM-RANK.log      output of one rank           ARM-RANK.stack    stacks of its threads when it was ended
ARM-RANK.nccl     NCCL's log of that rank      ARM-RANK.py-spy   py-spy's view, where it is installed
ARM.ras           answer of NCCL's RAS service while the ranks hung
ARM.fr_RANK       Flight Recorder dump; torchfrtrace reads it
agent.jsonl       what the agent wrote, step by step; agent.out, agent.err, agent.stack: its output and its stacks

Passwords, tokens of known services, signatures of URLs, addresses of e-mail and values of what is named after a secret are masked in
texts. Host names, paths and addresses of the network are not: read it before you publish it. Dumps (ARM.fr_RANK) are binary and are
kept as they are.

Files:
"""


def _masked(name: str, text: str) -> str:
    """Without secrets. What the agent wrote is JSON, line by line; where a line is none (it was killed while it wrote) it is a text."""
    return "".join(map(_masked_line, text.splitlines(keepends=True))) if name.endswith(".jsonl") else mask_secrets(text)


def _masked_line(line: str) -> str:
    try:
        return json.dumps(mask_values(json.loads(line))) + "\n"
    except (ValueError, RecursionError):
        return mask_secrets(line)


def keep(folder: str, path: str, snapshot: Snapshot, recorded: str, executable: str) -> None:
    """One archive of the private folder with an index, the analysis and the facts as `recorded`; secrets masked."""
    if not os.path.exists(os.path.join(folder, "analysis.json")) and isinstance(snapshot.live, LiveFacts):
        _write(os.path.join(folder, "analysis.json"), json.dumps(analyse(snapshot.live, folder, executable, 0), indent=1, sort_keys=True))
    texts: dict[str, bytes] = {}
    for entry in sorted(os.scandir(folder), key=lambda one: one.name):
        if not entry.is_file(follow_symlinks=False) or not entry.stat().st_size:
            continue  # pipes of the recorder, folders of caches, output of ranks that said nothing
        if flight_recorder.DUMP.match(entry.name):
            texts[entry.name] = written(entry.path, 0, 64 << 20) or b""
        elif entry.name.endswith(KEPT):  # not what a compiler or a checkpoint left
            texts[entry.name] = _masked(entry.name, _text(folder, entry.name)).encode()
    texts["snapshot.json"] = recorded.encode()
    index = "".join(f"{len(data):>12}  {entry}\n" for entry, data in sorted(texts.items()))
    texts = {"README.txt": (README + index).encode(), **texts}
    only_ours = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    with open(only_ours, "wb") as kept, tarfile.open(fileobj=kept, mode="w:gz") as archive:
        for entry_name, data in texts.items():
            info = tarfile.TarInfo(f"envcheck-evidence/{entry_name}")
            info.size, info.mode = len(data), 0o600
            archive.addfile(info, io.BytesIO(data))
