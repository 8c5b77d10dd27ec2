"""What the files of a traceback show by where they lie: a package out of its source checkout, a torch out of the user's own folder, an
extension that was compiled in the program's own.

  File "/home/me/mmcv/mmcv/video/optflow.py", line 6, in <module>    File "/opt/env/lib/python3.10/site-packages/torchaudio/_extension.py"
ModuleNotFoundError: No module named 'mmcv._ext'                     File "/home/me/.local/lib/python3.10/site-packages/torch/_ops.py"
"""

from __future__ import annotations

import re
from itertools import islice

from envcheck.facts.snapshot import TextEvidence
from envcheck.read.found import likely_sign

_FILE = re.compile(r"File [\"'“](?P<path>[^\"'”\n]{2,300}\.py)[\"'”]")
_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib(?:64)?[/\\]python3|^<")
# The part of a package that is compiled, or written while it is built.
_UNBUILT = re.compile(
    r"No module named ['\"](?P<package>\w{2,40})\.(?:[\w.]{0,60}\.)?(?:_C|_ext|\w{1,30}_cuda|\w{1,30}_ext|_version|version|_kernels)['\"]"
)
_PART = re.compile(
    r"cannot import name ['\"](?:_C|_ext|_cuda|_backend|\w{1,30}_(?:layer|ext|cuda))['\"] from (?:partially initialized module )?"
    r"['\"](?P<package>\w{2,40})[\w.]{0,80}['\"][^(\n]{0,80}(?:\([^()\n]{0,80}\)[^(\n]{0,8})?\((?P<path>[^()\n]{2,300}\.py)\)"
)
_USER = re.compile(
    r"[/\\]\.local[/\\]lib[/\\]python3[^/\\]{0,4}[/\\]site-packages|AppData[/\\]Roaming[/\\]Python[/\\]Python3\d{1,2}[/\\]site-packages"
)
_ENVIRONMENT = re.compile(r"(?:^|[\s'\"(:])(?P<env>(?:[A-Za-z]:)?[/\\][^\s'\":]{2,200}[/\\](?:site|dist)-packages)[/\\](?!torch[/\\])\w")
# A library of CUDA that an import misses, of those whose names carry CUDA's own version; and the places of the lines above it as Python and
# IPython (two ages of it) print them.
_MISSED = re.compile(
    r"(?:ImportError|OSError): (?P<library>lib(?:cudart|cublas|cublasLt|cusparse|nvrtc)\.so\.\d[.\d]{0,8}):"
    r" cannot open shared object"
)
_PLACE = re.compile(
    r"(?:File [\"'“](?P<path>[^\"'”\n]{2,300}\.py)[\"'”], line \d{1,6}|^(?P<old>[^\s:]{2,300}\.py) in "
    r"|File (?P<new>[^\s\"':]{2,300}\.py):\d)",
    re.MULTILINE,
)
_IMPORTS = re.compile(
    r"^[ >|\-\d]{0,16}(?:from (?P<folder>[\w.]{1,120}) )?import (?P<names>\w{1,60}(?:(?: as \w{1,40})?, \w{1,60}){0,8})", re.MULTILINE
)
# A name of torch or a companion that is not there, and the folder of the package a file belongs to.
_ASKED = re.compile(
    r"(?:cannot import name ['\"]?\w{1,80}['\"]? from ['\"]|module ['\"](?=[\w.]{1,120}['\"] has no attribute)|No module named ['\"])"
    r"(?P<module>torch(?:vision|audio|text|data)?\b(?!\._C\b)[\w.]{0,120})['\"]"
)
_PACKAGE = re.compile(r"[/\\](?:site|dist)-packages[/\\](?P<folder>\w{2,60})[/\\](?:[^/\\\n]{1,80}[/\\]){0,12}[^/\\\n]{1,80}\Z")
_ABOVE, _MOST = 2000, 8  # characters: the last place of a traceback and the lines of source that IPython shows; messages


def traced_paths(text: str) -> tuple[TextEvidence, ...]:
    """Signs of all kinds."""
    if "File " not in text and "cannot import name" not in text and "ImportError" not in text:
        return ()
    return (*_checkout(text), *_user_site(text), *_compiled_here(text), *_asker(text))


def _asker(text: str) -> tuple[TextEvidence, ...]:
    """The package that asks torch for a name: the last file above the message that lies in an installed package but the one asked."""
    for asked in islice(_ASKED.finditer(text), _MOST):
        above = text[max(asked.start() - _ABOVE, 0) : asked.start()]
        places = [one["path"] or one["old"] or one["new"] for one in _PLACE.finditer(above)]
        own = asked["module"].partition(".")[0]
        folders = [found["folder"] for one in places if (found := _PACKAGE.search(one)) and found["folder"] != own]
        if folders:
            return (likely_sign(asked[0], "torch-companion-mismatch", "torch-name-asker", "name", {"asker": folders[-1]}),)
    return ()


def _compiled_here(text: str) -> tuple[TextEvidence, ...]:
    """A file that lies in no installation imports a module which misses a library of CUDA: somebody compiled that module here."""
    for missed in islice(_MISSED.finditer(text), _MOST):
        above = text[max(missed.start() - _ABOVE, 0) : missed.start()]
        last = next(reversed(list(_PLACE.finditer(above))), None)
        if last is None:
            continue  # quoted in a title, above its traceback
        if _INSTALLED.search(last["path"] or last["old"] or last["new"]):
            return ()
        lines = list(_IMPORTS.finditer(above, last.end()))
        marked = [one for one in lines if "->" in one[0]] or lines  # IPython marks the line and shows its neighbours
        if not marked or marked[0]["names"].startswith("torch"):
            return ()
        values = {"library": missed["library"], "extension": marked[0]["names"]}
        return (likely_sign(missed[0], "missing-library", "library-of-an-own-extension", "local", values),)
    return ()


def _checkout(text: str) -> tuple[TextEvidence, ...]:
    """A package lacks its compiled part, and its files lie in no installation."""
    part = _PART.search(text) or _UNBUILT.search(text)
    if part is None:
        return ()
    package = part["package"]
    paths = [part.groupdict().get("path") or "", *(one["path"] for one in _FILE.finditer(text))]
    own = next((one for one in paths if (at := _within(one, package)) and not _INSTALLED.search(one[:at])), None)
    if own is None:
        return ()
    folder = own[: _within(own, package)]
    values = {"path": folder, "package": package}
    return (likely_sign(part[0], "torch-shadowed", "package-from-its-checkout", "checkout", values),)


def _within(path: str, package: str) -> int:
    """Where the path of the package's own folder ends, 0 where the file is not below it; of two of this name the inner one."""
    found = list(re.finditer(rf"[/\\]{re.escape(package)}(?=[/\\])", path))
    return found[-1].end() if found else 0


def _user_site(text: str) -> tuple[TextEvidence, ...]:
    """torch comes out of the user's folder, and another package out of an environment."""
    mine = next(
        (one["path"] for one in _FILE.finditer(text) if _USER.search(one["path"]) and re.search(r"-packages[/\\]torch[/\\]", one["path"])),
        None,
    )
    env = next((one["env"] for one in _ENVIRONMENT.finditer(text) if not _USER.search(one["env"])), None)
    if mine is None or env is None:
        return ()
    values = {"path": re.split(r"(?<=-packages)[/\\]", mine)[0], "env": env}
    return (likely_sign(mine, "torch-duplicated", "torch-of-the-user-site", "user_site", values),)
