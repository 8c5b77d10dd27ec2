"""Which of a host's interfaces NCCL and gloo take for their sockets."""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Mapping, Sequence

from envcheck.facts.snapshot import Interface

# NCCL's own order where nothing is named: InfiniBand's, then others, then docker's and the loopback (ncclFindInterfaces in
# https://github.com/NVIDIA/nccl/blob/master/src/misc/socket.cc). libvirt's bridge leads nowhere either: of it nothing is claimed.
_OTHERS = "^docker,lo,virbr"


def nccl_chosen(spec: str, names: Iterable[str]) -> list[str]:
    """What NCCL makes of NCCL_SOCKET_IFNAME and NCCL_IB_HCA: prefixes, `=` exact names, `^` all but these.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html#nccl-socket-ifname
    """
    rest = spec.removeprefix("^")
    listed = [one.strip() for one in rest.removeprefix("=").split(",") if one.strip()]
    hit = [name for name in names if (name in listed if rest.startswith("=") else name.startswith(tuple(listed)))]
    return [name for name in names if name not in hit] if spec.startswith("^") else hit


def chosen_by(interfaces: Sequence[Interface], variables: Mapping[str, str], own: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Interface → who takes it: "NCCL" or "gloo" by itself, or the variable that names it. `own` is what the host's name resolves to.

    The interfaces are in the system's order: of those that NCCL may use, the first one counts, over which the ranks find each other.
    """
    usable = {one.name: one for one in interfaces if one.up is not False and one.addresses}
    found: dict[str, list[str]] = {}
    if spec := variables.get("NCCL_SOCKET_IFNAME"):
        taken = nccl_chosen(spec, usable)
        if taken:
            found.setdefault(taken[0], []).append("NCCL_SOCKET_IFNAME")
    elif taken := nccl_chosen("ib", usable) or nccl_chosen(_OTHERS, usable):
        found.setdefault(taken[0], []).append("NCCL")
    if named := variables.get("GLOO_SOCKET_IFNAME"):
        for name in (one.strip() for one in named.split(",")):
            if name in usable:
                found.setdefault(name, []).append("GLOO_SOCKET_IFNAME")
    else:
        for one in usable.values():
            if not one.loopback and own and own[0] in one.addresses:
                found.setdefault(one.name, []).append("gloo")
    return {name: tuple(by) for name, by in found.items()}


def is_loopback(address: str) -> bool:
    """Of an address, with its zone or without; what is none is not."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    return False
