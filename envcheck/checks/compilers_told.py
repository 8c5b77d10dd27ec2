"""nvcc failed and its reason is not in the text: a pair of the versions stated beside it that cannot work."""

from __future__ import annotations

from envcheck.checks.hardware import nvidia
from envcheck.checks.text import quoted, value
from envcheck.engine.intents import Manual
from envcheck.engine.rule import Confidence, Facts, Hit, Matches, Severity
from envcheck.tables.versions import major, older, pair

_ANY = (
    "Install a gcc that this toolkit accepts beside the present one, and give it to the build: CC and CXX name it for torch's extension"
    " builder, the links for an nvcc that a Makefile or CMake calls. Remove what the failed build left first. Or build with a newer CUDA"
    " toolkit, together with a torch that was built with it."
)


def failed_beside(facts: Facts, told: Matches, nvcc: str | None) -> Hit | None:
    """Compiler, Visual Studio or card against the toolkit; nothing where no stated pair is impossible."""
    cuda = nvcc or value(told, "cuda") or facts.torch.cuda
    if cuda is None:
        return None
    return _gcc(facts, told, cuda) or _studio(facts, told, cuda) or _card(facts, told, cuda)


def _gcc(facts: Facts, told: Matches, cuda: str) -> Hit | None:
    system = value(told, "distribution") or " ".join(facts.system.distribution.lower().split()[:2] if facts.system.distribution else ())
    stated = facts.toolkit.gcc or value(told, "gcc")
    default = next((str(row["gcc"]) for row in facts.tables.rows("host-compiler", "distribution") if row["name"] == system), None)
    gcc, row = stated or default, facts.tables.host_compiler(cuda)
    if gcc is None or row is None or row.max_gcc is None or (major(gcc) or 0) <= row.max_gcc:
        return None
    new = row.max_gcc
    conda = f"conda install -c conda-forge gxx_linux-64={new}    # without root, from its environment; it sets CC and CXX"
    apt = f"sudo apt install gcc-{new} g++-{new}    # Ubuntu and Debian; where apt has none, the next older one or conda's"
    links = "sudo ln -sf $(command -v {0}-{1}) /usr/local/cuda/bin/{0}"
    steps = (apt, conda, f"export CC=gcc-{new} CXX=g++-{new}", "rm -rf build")
    links_too = (links.format("gcc", new), links.format("g++", new))
    values: dict[str, object] = {
        "nvcc": cuda,
        "limit": new,
        "gcc": gcc.split(".")[0] if stated is None else gcc,
        "where": system or "this system",
    }
    fixes = (Manual(_ANY, commands=(*steps, *links_too)),)
    return Hit(values, quoted(told), fixes, "failed", Severity.ERROR, Confidence.LIKELY)


def _studio(facts: Facts, told: Matches, cuda: str) -> Hit | None:
    studio = value(told, "studio")
    first = next((str(row["cuda"]) for row in facts.tables.rows("host-compiler", "studio") if row["name"] == studio), None)
    if first is None or not older(cuda, first):
        return None
    return Hit(
        {"nvcc": cuda, "studio": studio, "first": first},
        quoted(told),
        variant="studio",
        severity=Severity.ERROR,
        confidence=Confidence.LIKELY,
    )


def _card(facts: Facts, told: Matches, cuda: str) -> Hit | None:
    """The toolkit cannot compile for the card, for which torch asks it by itself."""
    for gpu in nvidia(facts.gpus):
        row = facts.tables.gpu(gpu.compute_capability or "") if gpu.compute_capability else None
        first = facts.tables.first_cuda(gpu.compute_capability or "") if row else None
        if row and first and first > pair(cuda):
            values: dict[str, object] = {
                "nvcc": cuda,
                "gpu": gpu.name,
                "first": row.first_cuda,
                "index": "cu" + row.first_cuda.replace(".", ""),
            }
            return Hit(values, quoted(told), variant="card", severity=Severity.ERROR, confidence=Confidence.LIKELY)
    return None
