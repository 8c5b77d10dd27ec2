"""The one place that knows how pip, uv and conda are spelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from envcheck.engine.shells import in_cmd, posix_line, powershell_export, powershell_line
from envcheck.facts.quoting import joined, quoted
from envcheck.facts.record import field, record, replace
from envcheck.facts.secrets import MASK, mask_secrets
from envcheck.planner.candidate import Candidate
from envcheck.planner.companions import Companions, Move
from envcheck.planner.installers import PlanTexts, installers
from envcheck.planner.profile import Profile
from envcheck.planner.result import TOOLS, Commands
from envcheck.tables.versions import build_tag, release


@record
class InstallOptions:
    """What the user wants of the commands: another index base than download.pytorch.org, the package tool."""

    index_base: str | None = None
    tool: str = "auto"
    uv_backends: frozenset[str] = frozenset()  # names that --torch-backend takes
    texts: PlanTexts = PlanTexts({})  # of the notes


@record
class IndexForm:
    """How the documented commands of one release name a variant."""

    form: str = "index-url"  # "find-links", "extra-index-url", "index-url"
    url: str = "https://download.pytorch.org/whl/{variant}"
    labels: bool = False  # the local version must be written


@record
class Spelled:
    """Command lines of one way, and the same as files."""

    pip: tuple[str, ...] = ()
    uv: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def wheels(
    one: Candidate, beside: Companions, profile: Profile, release: IndexForm, options: InstallOptions, again: bool = False
) -> Spelled:
    """pip and uv lines that install a wheel build with its companions; `again` rewrites a build that is there already."""
    order = _Order(one, beside, profile, release, options, again)
    return Spelled(order.pip(), order.uv(), order.files(), order.notes())


def some(
    one: Candidate,
    beside: Companions,
    profile: Profile,
    release: IndexForm,
    options: InstallOptions,
    torch: bool = False,
    again: bool = False,
) -> Spelled:
    """Lines for some packages of a variant's index, torch among them or not; `again` writes their files anew, and only theirs."""
    order = _Order(one, beside, profile, release, options, again, torch, alone=again)
    return Spelled(order.pip(), order.uv(), order.files(), order.notes())


@record
class _Order:
    """One installation: which requirements, from where, and what goes first."""

    one: Candidate
    beside: Companions
    profile: Profile
    release: IndexForm
    options: InstallOptions
    again: bool
    torch: bool = True  # torch itself is part of it
    alone: bool = False  # without dependencies

    @property
    def url(self) -> str:
        """The index or link page of the variant, below a mirror's base if one was named."""
        url = self.release.url.format(variant=self.one.variant)
        base = self.options.index_base
        return base.rstrip("/") + url[len(installers().index_base) :] if base and url.startswith(installers().index_base) else url

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """torch and what the download index holds beside it."""
        torch = Move("torch", self.one.version, old=self.profile.torch_metadata)
        there = (move for move in self.beside.moves if move.index or move.name in installers().data["pip"]["local_version_since"])
        return (torch, *there) if self.torch else tuple(there)

    @cached_property
    def others(self) -> tuple[Move, ...]:
        return tuple(move for move in self.beside.moves if move not in self.moves and not move.build_here)

    @cached_property
    def built_here(self) -> tuple[Move, ...]:
        return tuple(move for move in self.beside.moves if move.build_here)

    def can_label(self, move: Move) -> bool:
        return installers().labelled(move.name, self.one.version, self.profile.machine or self.one.platform.partition("-")[2])

    @cached_property
    def clash(self) -> bool:
        """An installed package has the wanted version in another variant, or may have it: pip and uv would call `==X` satisfied."""
        return self.profile.torch_unnumbered or any(
            move.version and move.old and release(move.old) == move.version and _variant_here(move, self.profile) != self.one.variant
            for move in self.moves
        )

    @cached_property
    def plain(self) -> bool:
        """PyPI itself gives this variant here, and nothing that is installed stands in the way."""
        apart = any(move.index == "alone" for move in self.beside.moves)
        return self.one.default and not self.clash and not apart and not self.options.index_base

    @cached_property
    def labels(self) -> bool:
        """Whether `+cu126` is written behind the versions."""
        if self.plain or not self.can_label(Move("torch")):
            return False
        return self.release.labels or self.clash or self.extra

    @cached_property
    def extra(self) -> bool:
        """A configured index keeps serving everything else; torch comes from the variant's index beside it."""
        configured = bool(self.profile.index_url) and not self.options.index_base and self.can_label(Move("torch"))
        return not self.plain and (configured or self.release.form == "extra-index-url")

    def requirements(self, moves: Sequence[Move]) -> list[str]:
        return [move.requirement(self.one.variant if self.labels and self.can_label(move) else None) for move in moves]

    def source(self, uv: bool = False) -> list[str]:
        """The index flags."""
        if self.plain:
            return []
        if self.release.form == "find-links":
            return ["--find-links" if uv else "-f", self.url]
        if self.extra:
            return ["--index" if uv else "--extra-index-url", self.url]
        return ["--index-url", self.url]

    def uninstall(self) -> list[str]:
        """Names that must be gone first."""
        first = [move.name for move in self.moves if move.old] if self.clash and not self.plain and not self.labels else []
        return [*first, *self.beside.remove]

    def pip(self) -> tuple[str, ...]:
        profile = self.profile
        made = ".venv\\Scripts\\python.exe" if profile.windows else ".venv/bin/python"
        python = made if profile.managed else profile.executable or "python"
        lines: list[str] = []
        if profile.managed:
            lines.append(line(profile, profile.executable or ("python" if profile.windows else "python3"), "-m", "venv", ".venv"))
        elif profile.has_pip is False:
            lines.append(line(profile, python, "-m", "ensurepip", "--upgrade"))
        pip = (python, "-m", "pip")
        if profile.torch_from_conda and profile.torch and not profile.managed:
            lines.append(_conda_remove(profile))
        if gone := self.uninstall():
            lines.append(line(profile, *pip, "uninstall", "-y", *gone))
        force = [*(["--force-reinstall"] if self.again else []), *(["--no-deps"] if self.alone else [])]
        together = self.others if self.plain or not self.moves else ()
        if names := self.requirements((*self.moves, *together)):
            lines.append(line(profile, *pip, "install", *force, *names, *(self.source() if self.moves else ())))
        if self.others and not together:
            lines.append(line(profile, *pip, "install", *(move.requirement() for move in self.others)))
        lines += [line(profile, *pip, "install", move.requirement(), "--no-build-isolation") for move in self.built_here]
        return tuple(lines)

    def uv(self) -> tuple[str, ...]:
        profile = self.profile
        lines: list[str] = []
        if profile.managed:
            lines.append("uv venv")
            where: list[str] = []
        elif profile.executable:
            where = ["--python", profile.executable]
        else:
            where = []
        if profile.torch_from_conda and profile.torch and not profile.managed:
            lines.append(_conda_remove(profile))
        if gone := self.uninstall():
            lines.append(line(profile, "uv", "pip", "uninstall", *where, *gone))
        force = [flag for move in self.moves for flag in ("--reinstall-package", move.name)] if self.again else []
        force += ["--no-deps"] if self.alone else []
        backend = self.one.variant in self.options.uv_backends and not self.options.index_base and self.release.form != "find-links"
        forced = profile.variables.get("UV_TORCH_BACKEND")
        if (self.plain and not forced) or not self.moves:
            source, together = [], self.others
        elif backend:  # with a backend uv asks PyPI for none of its list, and not every index has them
            alone = installers().data["uv"]["index_alone"]
            source, together = [f"--torch-backend={self.one.variant}"], tuple(move for move in self.others if move.name not in alone)
        else:
            source, together = self.source(uv=True), ()
        if names := self.requirements((*self.moves, *together)):
            lines.append(line(profile, "uv", "pip", "install", *where, *force, *names, *source))
        sent = {move.name for move in together}
        if rest := [move.requirement() for move in self.others if move.name not in sent]:
            lines.append(line(profile, "uv", "pip", "install", *where, *rest))
        lines += [line(profile, "uv", "pip", "install", *where, move.requirement(), "--no-build-isolation") for move in self.built_here]
        return tuple(lines)

    def files(self) -> dict[str, str]:
        """The same as requirements.txt, Dockerfile lines and a block of pyproject.toml."""
        label = not self.plain and self.can_label(Move("torch"))
        named = [move.requirement(self.one.variant if label and self.can_label(move) else None) for move in self.moves]
        others = [move.requirement() for move in self.others]
        flag = [] if self.plain else [("--find-links " if self.release.form == "find-links" else "--extra-index-url ") + self.url]
        if not label and flag and self.release.form == "index-url":
            flag = ["--index-url " + self.url]  # without a label a second index could give another variant
        result = {"requirements.txt": "\n".join([*flag, *named, *others]) + "\n"}
        bare = [
            move.requirement(self.one.variant if self.release.labels and label and self.can_label(move) else None) for move in self.moves
        ]
        source = [] if self.plain else ["-f" if self.release.form == "find-links" else f"--{self.release.form}", self.url]
        run = ["RUN " + joined(["python", "-m", "pip", "install", "--no-cache-dir", *bare, *source])] if bare else []
        if others:
            run.append("RUN " + joined(["python", "-m", "pip", "install", "--no-cache-dir", *others]))
        run += [
            "RUN " + joined(["python", "-m", "pip", "install", "--no-cache-dir", "--no-build-isolation", move.requirement()])
            for move in self.built_here
        ]
        result["Dockerfile"] = "\n".join(run) + "\n"
        if self.release.form == "index-url":
            result["pyproject.toml"] = self.project()
        return result

    def project(self) -> str:
        """Dependencies and `[tool.uv.sources]`: uv sync and uv lock do not know --torch-backend."""
        triton = installers().triton(self.one.variant, self.one.version) if self.torch and not self.plain else None
        marker = {"linux": "sys_platform == 'linux'", "windows": "sys_platform == 'win32'"}.get(self.one.platform.partition("-")[0], "")
        # sources hold for direct dependencies alone; elsewhere the lock is for a torch of PyPI, which has no such triton
        named = [triton + (f" ; {marker}" if marker else "")] if triton else []
        depend = ", ".join(f'"{text}"' for text in (*map(Move.requirement, self.moves), *named, *map(Move.requirement, self.others)))
        text = f"# below [project]\ndependencies = [{depend}]\n"
        if self.plain:
            return text
        name = f"pytorch-{self.one.variant.replace('.', '-')}"
        entry = f'{{ index = "{name}"' + (f', marker = "{marker}"' if marker else "") + " }"
        sources = "".join(f"{package} = [{entry}]\n" for package in (*(move.name for move in self.moves), *([triton] if triton else [])))
        return f'{text}\n[[tool.uv.index]]\nname = "{name}"\nurl = "{self.url}"\nexplicit = true\n\n[tool.uv.sources]\n{sources}'

    def notes(self) -> tuple[str, ...]:
        say = self.options.texts.say
        notes = []
        if self.profile.notebook and not self.profile.managed and (cells := in_notebook(self.pip())):
            notes.append(say("note.notebook", lines="; ".join(cells)))
        if self.beside.remove:
            notes.append(say("note.same-files"))
        if self.profile.managed:
            notes.append(say("note.tool" if self.profile.environment == "tool" else "note.venv"))
        if self.extra and self.profile.index_url and not self.options.index_base:
            notes.append(say("note.mirror", url=self.url))
        if mask_secrets(self.url) != self.url and not self.plain:
            notes.append(say("note.login", mask=MASK))
        if self.profile.torch_from_conda and self.profile.torch:
            notes.append(say("note.conda-mix"))
        return tuple(notes)


def _variant_here(move: Move, profile: Profile) -> str | None:
    """Variant of an installed package: its label, or that of the installed torch (PyPI's wheels carry no label)."""
    return build_tag(move.old).variant or profile.variant


def conda(one: Candidate, beside: Companions, profile: Profile) -> tuple[str, ...]:
    """conda lines for a build of conda-forge or of the frozen channel `pytorch`."""
    lines: list[str] = []
    if profile.torch and not profile.torch_from_conda and profile.environment in ("conda", "pixi"):
        gone = [name for name in ("torch", "torchvision", "torchaudio") if name in profile.packages or name == "torch"]
        lines.append(line(profile, profile.executable or "python", "-m", "pip", "uninstall", "-y", *gone))
    names = [move for move in beside.moves if installers().conda_name(move.name)]
    if one.channel == "pytorch":
        extra = [f"{move.name}=={move.version}" if move.version else move.name + move.specifier for move in names]
        kind = [f"{one.selector}={one.cuda}"] if one.cuda else ["cpuonly"] if not one.platform.startswith("macos") else []
        channels = ["-c", "pytorch", *channel_beside(one)]
        lines.append(line(profile, "conda", "install", *_prefix(profile), f"pytorch=={one.version}", *extra, *kind, *channels))
        return tuple(lines)
    package = "pytorch-gpu" if one.cuda else "pytorch" if one.platform.startswith("macos") else "pytorch-cpu"
    wanted = [f"{package}={one.version}", *([f"cuda-version={one.cuda}"] if one.cuda else [])]
    # conda-forge's torchvision and torchaudio follow its torch: the solver finds the pair.
    wanted += [str(installers().conda_name(move.name)) + ("" if move.version else move.specifier) for move in names]
    if profile.environment == "pixi":
        lines.append(line(profile, "pixi", "add", *wanted))
        return tuple(lines)
    command = line(profile, "conda", "install", *_prefix(profile), "-c", "conda-forge", *wanted)
    if one.cuda and not profile.driver:
        if profile.windows:
            lines.append(export(profile, "CONDA_OVERRIDE_CUDA", one.cuda))
        else:
            command = f"CONDA_OVERRIDE_CUDA={one.cuda} {command}"
    return (*lines, command)


def conda_install(profile: Profile, requirements: Sequence[str], again: bool = False) -> str:
    """One conda line for packages of conda-forge."""
    if profile.environment == "pixi":
        return line(profile, "pixi", "add", *requirements)
    force = ["--force-reinstall"] if again else []
    return line(profile, "conda", "install", *_prefix(profile), *force, "-c", "conda-forge", *requirements)


def channel_beside(one: Candidate) -> list[str]:
    """The channel that a build of the channel `pytorch` needs beside it: CUDA 11.1 to 11.6 come from conda-forge, then from nvidia."""
    if not one.cuda or one.cuda == "10.2":
        return []
    return ["-c", "nvidia" if one.selector == "pytorch-cuda" else "conda-forge"]


def _prefix(profile: Profile) -> list[str]:
    """The environment to change, where it is a conda one; else the active one."""
    return ["-p", profile.prefix] if profile.environment == "conda" and profile.prefix else []


def _conda_remove(profile: Profile) -> str:
    return (
        line(profile, "pixi", "remove", "pytorch")
        if profile.environment == "pixi"
        else line(profile, "conda", "remove", *_prefix(profile), "pytorch")
    )


def install(
    profile: Profile, requirements: Sequence[str], remove: Sequence[str] = (), again: bool = False, flags: Sequence[str] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """pip and uv lines for packages of the default index."""
    python = profile.executable or "python"
    pip: list[str] = []
    uv: list[str] = []
    where = ["--python", profile.executable] if profile.executable else []
    if remove:
        names, twice = dict.fromkeys(remove), [name for at, name in enumerate(remove) if name in remove[:at]]
        pip += [line(profile, python, "-m", "pip", "uninstall", "-y", *some) for some in (names, twice) if some]
        uv.append(line(profile, "uv", "pip", "uninstall", *where, *names))
    if requirements:
        force = ["--force-reinstall", "--no-deps"] if again else []
        anew = [flag for text in requirements for flag in ("--reinstall-package", name_of(text))] if again else []
        pip.append(line(profile, python, "-m", "pip", "install", *force, *flags, *requirements))
        uv.append(line(profile, "uv", "pip", "install", *where, *anew, *(["--no-deps"] if again else []), *flags, *requirements))
    return tuple(pip), tuple(uv)


def name_of(requirement: str) -> str:
    """ "numpy" of "numpy<2"."""
    end = next((at for at, letter in enumerate(requirement) if letter in "<>=!~[ ;@"), len(requirement))
    return requirement[:end]


def line(profile: Profile, *words: str) -> str:
    """One command line for the user's shell, quoted for it; on Windows for PowerShell, of which `with_cmd` makes one for cmd."""
    return powershell_line(words) if profile.windows else posix_line(words)


def export(profile: Profile, name: str, value: str | None) -> str:
    """Set or unset a variable of the shell that starts training."""
    if profile.windows:
        return powershell_export(name, value)
    return f"unset {quoted(name)}" if value is None else f"export {quoted(name)}={quoted(value)}"


def in_notebook(lines: Sequence[str]) -> tuple[str, ...]:
    """pip lines as cells: %pip is the pip of the kernel's own Python, which the shell's need not be."""
    rests = [line[_end_of_word(line) :] for line in lines]
    return tuple("%pip" + rest.removeprefix(" -m pip") for rest in rests if rest.startswith(" -m pip "))


def _end_of_word(line: str) -> int:
    """Of the Python, which its shell has in quotes where it has to be: a folder may be called anything."""
    quote = ""
    start = len("& ") if line.startswith("& ") else 0
    for at, one in enumerate(line[start:], start):
        if one == quote:
            quote = ""
        elif not quote and one in "'\"":
            quote = one
        elif not quote and one == " ":
            return at
    return len(line)


def with_cmd(commands: Commands, profile: Profile) -> Commands:
    """Commands for Windows with those lines for cmd that PowerShell writes otherwise."""
    if not profile.windows:
        return commands
    made = {name: tuple(map(in_cmd, lines)) for name in (*TOOLS, "shell") if (lines := getattr(commands, name))}
    return replace(commands, cmd={name: lines for name, lines in made.items() if lines != getattr(commands, name)})
