"""Runs inside the target interpreter and writes what it finds as JSON lines. Stdlib only, Python 3.8 syntax.

Called as `python collect.py OPTIONS_JSON`. Before each step it writes {"begin": NAME}, after it {"section": NAME, "value": ...},
so that a step that kills the interpreter costs that step alone and is named by what is not there.
Options: out (file for the lines), folder (private, for stacks and rank output), static, live ("quick", "full", "off"), nproc,
backend, start_method, because (why no rank may be forked), devices_seconds, live_seconds (for the whole agent), stage_seconds
(instead of a measured one), and for what the agent starts itself: only ("devices"), rank and arm.

This file alone must be read by every Python, so that the old ones can be told: no annotations, ASCII only.
"""

import sys

if sys.version_info < (3, 8):
    sys.stderr.write("envcheck-agent: Python %d.%d is too old, 3.8 or newer is needed\n" % sys.version_info[:2])
    sys.exit(79)

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List  # noqa: F401 - the comments below name them

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    # type: () -> None
    # The interpreter's own start belongs to the time that the caller measures; a sitecustomize may have imported torch.
    began = time.monotonic() - time.process_time()
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(HERE):
        del sys.path[0]
    lines = load("lines")
    options = lines.json.loads(sys.argv[1])
    options["began"] = began
    writer = lines.Writer(options["out"])
    writer.line(begin="start", pid=os.getpid(), at=time.monotonic())
    if options.get("rank") is None and not options.get("only"):
        inventory = load("inventory", lines)
        writer.section("python", inventory.python_facts)
        writer.section("packages", inventory.package_facts, HERE)
        torch = writer.section("torch_static", inventory.torch_static)
        if options["static"] or torch is None:
            writer.line(end=True)
            return
    processes = load("processes")
    run = load("run", lines, processes, load("constants", lines), load("devices", lines, processes))
    run.main(options, writer, load)
    writer.line(end=True)


def absolute(folder):
    # type: (str) -> str
    try:
        return os.path.abspath(folder)
    except OSError:  # the working folder was deleted
        return folder


def load(name, *siblings):
    # type: (str, Any) -> Any
    """A sibling file as a module that sees the `siblings`; from the bytecode that an installer left, but never leaving any.

    Not through sys.path, which belongs to the patient. What the file imports is searched without PYTHONPATH, so that a json.py
    there breaks the patient and not us; what it hides is forgotten again, so that the patient's own imports do break.
    """
    theirs, known = sys.path[:], set(sys.modules)
    writes = sys.dont_write_bytecode
    folders = [absolute(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    stdlib = os.path.dirname(os.path.abspath(os.__file__))
    if folders:
        sys.path[:] = [entry for entry in theirs if entry and (entry not in folders or entry.startswith(stdlib))]
    sys.dont_write_bytecode = True
    try:
        from importlib.machinery import SourceFileLoader

        path = os.path.join(HERE, name + ".py")
        code = SourceFileLoader("envcheck_agent_" + name, path).get_code("envcheck_agent_" + name)
        module = type(sys)("envcheck_agent_" + name)
        module.__dict__["__file__"] = path
        for sibling in siblings:
            module.__dict__[sibling.__name__[len("envcheck_agent_") :]] = sibling
        exec(code, module.__dict__)  # type: ignore[arg-type] # noqa: S102 - a file of ours, which always has code
    finally:
        sys.path[:], sys.dont_write_bytecode = theirs, writes
        new = [one for one in sys.modules if one not in known] if folders else []
        for one in new:
            if hides(folders, one.partition(".")[0]):
                del sys.modules[one]
    return module


def hides(folders, name):
    # type: (List[str], str) -> bool
    return any(os.path.isfile(os.path.join(folder, *tail)) for folder in folders for tail in ((name + ".py",), (name, "__init__.py")))


if __name__ == "__main__":
    code = 0
    try:
        main()
    except BaseException:
        code = 1
        sys.__excepthook__(*sys.exc_info())
    # Without the interpreter's teardown: it costs as much as a second, and a broken library may hang in it.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    os._exit(code)
