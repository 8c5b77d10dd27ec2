"""NCCL could not connect its queue pair to the peer's (ibv_modify_qp): the number of the error tells what of the way is wrong."""

from __future__ import annotations

from envcheck.checks.text import quoted
from envcheck.engine.intents import SetEnv
from envcheck.engine.rule import Hit, Matches

_MAPPED = "::ffff:"  # an IPv4 address as a GID of RoCE v2
_NUMBERS = {"Connection timed out": "110", "Network is unreachable": "101", "No route to host": "113", "Invalid argument": "22"}
_RAILS = SetEnv(
    "NCCL_CROSS_NIC", "0", "on every node: each connection stays on one rail, for devices whose networks do not reach each other"
)


def queue_pair_refused(matches: Matches) -> Hit | None:
    """The peer's address is not reached (110, 101, 113), or this device has no such GID (22)."""
    told = tuple(match for match in matches if match.symptom == "nccl-ib-modify-qp" and match.variant != "device")
    if not told:
        return None
    first = max(told, key=lambda match: len(match.values))
    seen = first.values
    reason = seen.get("reason") or next((words for words, number in _NUMBERS.items() if number == seen.get("errno")), "an error")
    local, remote = (seen.get(name, "").removeprefix(_MAPPED) for name in ("local_gid", "remote_gid"))
    values = {
        "reason": reason,
        "errno": seen.get("errno") or _NUMBERS.get(reason, "no number"),
        "device": seen.get("device") or "one of them",
        "index": seen.get("index") or "not printed",
        "shown": remote or "not printed",
        "local": local if "." in local else None,
        "remote": remote if "." in remote else None,
    }
    return Hit(values, quoted(told), (_RAILS,) if first.variant == "unreached" else (), first.variant)
