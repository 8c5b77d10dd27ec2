"""What Apple's Metal backend depends on: macOS, the chip, and whether this interpreter is translated."""

from __future__ import annotations

from envcheck.facts.snapshot import Missing, MpsFacts, Why
from envcheck.host.access import Host
from envcheck.probes.system import parse_sysctl

NAMES = ("kern.osproductversion", "hw.optional.arm64", "machdep.cpu.brand_string")


def probe(host: Host) -> MpsFacts | Missing:
    facts = host.platform()
    if facts.get("system") != "Darwin":
        return Missing(Why.ABSENT, "not macOS")
    done = host.run(("sysctl", *NAMES), timeout=5)
    said = parse_sysctl(done.stdout)
    if not said:
        return Missing(Why.TIMEOUT if done.timed_out else Why.FAILED, "sysctl gave no answer", done.stderr[:500])
    machine = facts.get("machine")
    # an Intel Mac does not know the name; a translated process sees the real chip there and x86_64 as its machine
    silicon = said.get("hw.optional.arm64") == "1" or machine == "arm64"
    return MpsFacts(
        macos=said.get("kern.osproductversion"),
        chip=said.get("machdep.cpu.brand_string"),
        apple_silicon=silicon,
        rosetta=silicon and machine == "x86_64",
    )
