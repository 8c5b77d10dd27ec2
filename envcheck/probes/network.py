"""Names and interfaces that process groups are built over. Nothing is sent, but that this host's own name and address are resolved."""

from __future__ import annotations

from collections.abc import Iterable

from envcheck.facts.snapshot import InfinibandPort, Interface, Missing, NetworkFacts
from envcheck.facts.whole_numbers import whole_number
from envcheck.host.access import Host
from envcheck.probes.task import Task

RESOLVE_SECONDS = 3.0
NET = "/sys/class/net"
INFINIBAND = "/sys/class/infiniband"
PORTS = "/proc/sys/net/ipv4/ip_local_port_range"
PREFIXES = ("NCCL_", "RCCL_", "GLOO_", "UCX_", "UCC_", "FI_", "OFI_NCCL_", "CCL_", "TORCH_NCCL_", "TORCH_GLOO_", "TORCH_DIST", "TORCH_FR_")
IFF_UP, IFF_LOOPBACK, IFF_RUNNING = 1, 8, 0x40  # linux/if.h; running: also where the state is unknown, as of tunnels and the loopback


def probe(host: Host) -> NetworkFacts | Missing:
    facts = host.platform()
    linux = facts.get("system") == "Linux"
    name = facts.get("node") or None
    interfaces = interfaces_of(host)
    own = next((one for row in interfaces if row.up is not False and not row.loopback for one in row.addresses if "." in one), None)
    # Side by side: a dead resolver costs its time once.
    backwards = Task(lambda: host.reverse(own, RESOLVE_SECONDS)) if own else None
    loopback = Task(lambda: host.resolve("localhost", RESOLVE_SECONDS))
    named = Task(lambda: _full_name(host, name)) if name else None
    answer = host.resolve(name, RESOLVE_SECONDS) if name else None
    seconds = backwards.result(RESOLVE_SECONDS + 1) if backwards else None
    localhost = loopback.result(RESOLVE_SECONDS + 1)
    full, leads = (named.result(RESOLVE_SECONDS + 1) if named else None) or (None, None)
    ports = [whole_number(one, 5) for one in (host.read(PORTS, 64) or "").split()] if linux else []
    first, last = ports if len(ports) == 2 else (None, None)
    return NetworkFacts(
        hostname=name,
        addresses=answer.addresses if answer else (),
        resolve_error=answer.error if answer else "this host has no name",
        full_name=full,
        full_name_addresses=leads,
        localhost=localhost.addresses if localhost and not localhost.timed_out else None,
        resolve_seconds=round(answer.seconds, 4) if answer else None,
        reverse_seconds=round(seconds, 4) if seconds is not None else None,
        interfaces=interfaces,
        infiniband=_infiniband(host) if linux else (),
        local_port_first=first,
        local_port_last=last,
        peermem=any(host.exists(f"/sys/module/{name}") for name in ("nvidia_peermem", "nv_peer_mem")) if linux else None,
        variables={name: host.env[name] for name in sorted(host.env) if name.startswith(PREFIXES)},
        nccl_conf=_nccl_conf(host),
    )


def _full_name(host: Host, name: str) -> tuple[str | None, tuple[str, ...] | None]:
    """The name that torch takes for this host, where it is another than its own; and its addresses."""
    full = host.full_name(name, RESOLVE_SECONDS)
    if full is None or full == name:
        return None, None
    answer = host.resolve(full, RESOLVE_SECONDS)
    return full, None if answer.timed_out else answer.addresses


def interfaces_of(host: Host) -> tuple[Interface, ...]:
    """With their addresses, the loopback too."""
    system = host.platform().get("system")
    return _by_the_kernel(host) if system == "Linux" else parse_ifconfig(_ifconfig(host, system))


def _by_the_kernel(host: Host) -> tuple[Interface, ...]:
    known: dict[str, list[str]] = {}
    for name, address in (*host.addresses(), *parse_if_inet6(host.read("/proc/net/if_inet6"))):
        known.setdefault(name.partition(":")[0], []).append(address)  # an alias is called eth0:1
    if links := host.links():
        return tuple(
            Interface(
                name,
                up=bool(bits & IFF_UP and bits & IFF_RUNNING),
                loopback=bool(bits & IFF_LOOPBACK),
                addresses=tuple(known.get(name, ())),
                mtu=whole_number(str(mtu), 9),
            )
            for name, bits, mtu in links
        )
    rows = []  # of the namespace that /sys was mounted in
    for name in host.listdir(NET) or tuple(known):
        flags = (host.read(f"{NET}/{name}/flags", 64) or "").strip()
        state = (host.read(f"{NET}/{name}/operstate", 64) or "").strip()
        if not flags and name not in known:
            continue  # "bonding_masters" is a file among the interfaces
        bits = int(flags, 16) if _is_hex(flags) else None
        mtu = (host.read(f"{NET}/{name}/mtu", 64) or "").strip()
        rows.append(
            Interface(
                name,
                # tunnels and the loopback have the state "unknown"
                up=None if bits is None else bool(bits & IFF_UP) and state not in ("down", "lowerlayerdown", "notpresent"),
                loopback=bool(bits & IFF_LOOPBACK) if bits is not None else name == "lo",
                addresses=tuple(known.get(name, ())),
                mtu=whole_number(mtu, 9),
            )
        )
    return tuple(rows)


def _is_hex(text: str) -> bool:
    return text.startswith("0x") and len(text) > 2 and all(letter in "0123456789abcdef" for letter in text[2:].lower())


def parse_if_inet6(text: str | None) -> tuple[tuple[str, str], ...]:
    """(interface, address) pairs.

    fe80000000000000c2000afffe280002 02 40 20 80     eth0
    """
    import socket  # inet_ntop spares the import of ipaddress

    found = []
    for line in (text or "").splitlines():
        words = line.split()
        if len(words) == 6 and len(words[0]) == 32 and all(letter in "0123456789abcdef" for letter in words[0].lower()):
            found.append((words[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))))
    return tuple(found)


def _ifconfig(host: Host, system: str | None) -> str:
    return host.run(("ifconfig", "-a"), timeout=5).stdout if system == "Darwin" else ""


def parse_ifconfig(text: str) -> tuple[Interface, ...]:
    """ifconfig -a of macOS.

    en0: flags=8863<UP,BROADCAST,SMART,RUNNING,SIMPLEX,MULTICAST> mtu 1500
    \tinet6 fe80::1c2e:4e6a:9b1a:1%en0 prefixlen 64 secured scopeid 0xb
    \tinet 192.168.1.20 netmask 0xffffff00 broadcast 192.168.1.255
    \tstatus: active
    """
    rows: list[Interface] = []
    for line in text.splitlines():
        if line[:1] not in ("", " ", "\t") and "flags=" in line:
            name, _, rest = line.partition(":")
            flags = rest.partition("<")[2].partition(">")[0].split(",")
            mtu = rest.rpartition(" mtu ")[2].strip()
            rows.append(Interface(name, up="UP" in flags, loopback="LOOPBACK" in flags, mtu=whole_number(mtu, 9)))
        elif rows:
            words = line.split()
            last = rows[-1]
            if words[:1] in (["inet"], ["inet6"]) and len(words) > 1:
                address = words[1].partition("%")[0]
                rows[-1] = Interface(last.name, last.up, last.loopback, (*last.addresses, address), last.mtu)
            elif words == ["status:", "inactive"]:
                rows[-1] = Interface(last.name, False, last.loopback, last.addresses, last.mtu)
    return tuple(rows)


def _infiniband(host: Host) -> tuple[InfinibandPort, ...]:
    """Every port of every RDMA device: state "4: ACTIVE", rate "400 Gb/sec (4X NDR)"."""
    ports = []
    for device in host.listdir(INFINIBAND) or ():
        for port in host.listdir(f"{INFINIBAND}/{device}/ports") or ():
            folder = f"{INFINIBAND}/{device}/ports/{port}"
            if not port.isdecimal():
                continue
            state = (host.read(f"{folder}/state", 256) or "").strip()
            ports.append(
                InfinibandPort(
                    device,
                    int(port),
                    state=state.rpartition(":")[2].strip() or None,
                    link_layer=(host.read(f"{folder}/link_layer", 256) or "").strip() or None,
                    rate=(host.read(f"{folder}/rate", 256) or "").strip() or None,
                )
            )
    return tuple(ports)


def _nccl_conf(host: Host) -> dict[str, str]:
    """What NCCL's configuration files set that the environment does not: the environment wins, then the user's file.

    https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
    """
    user = host.env.get("NCCL_CONF_FILE") or (f"{host.env['HOME']}/.nccl.conf" if host.env.get("HOME") else None)
    found: dict[str, str] = {}
    for path in ("/etc/nccl.conf", user):
        if path:
            found.update(parse_nccl_conf((host.read(path, 65536) or "").splitlines()))
    return {name: value for name, value in sorted(found.items()) if name not in host.env}


def parse_nccl_conf(lines: Iterable[str]) -> dict[str, str]:
    """NAME=value lines; # starts a comment."""
    found = {}
    for line in lines:
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name.strip()] = value.strip()
    return found
