"""Runs inside the target interpreter and writes what it finds as JSON lines. Stdlib only, Python 3.8 syntax.

Called as `python main.py OPTIONS_JSON`. Before each step it writes {"begin": NAME}, after it {"section": NAME, "value": ...},
so that a step that kills the interpreter costs that step alone and is named by what is not there.
Options: out (file for the lines), folder (private, for stacks and rank output), static, live ("quick", "full", "off"), nproc,
backend, start_method, because (why no rank may be forked), tie (a pipe that ends with envcheck), devices_seconds, live_seconds
(for the whole agent), stage_seconds (instead of a measured one), world (it serves a job's process: world_parent.py), and for what
the agent starts itself: only ("devices"), rank and arm, task.

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
    from typing import Any  # noqa: F401 - the comments below name it

HERE = os.path.dirname(os.path.abspath(__file__))
# The files of this folder are a package that is found by its own path: sys.path belongs to the patient and is not asked.
package = sys.modules["envcheck_agent"] = type(sys)("envcheck_agent")
package.__path__ = [HERE]


def main():
    # type: () -> None
    # The interpreter's own start belongs to the time that the caller measures; a sitecustomize may have imported torch.
    began = time.monotonic() - time.process_time()
    os.umask(os.umask(0o077) & 0o077)  # files of ours and of torch are for their owner to read, whatever he has said
    if sys.path and os.path.realpath(sys.path[0]) == os.path.realpath(HERE):
        del sys.path[0]
    if is_of_others(sys.prefix) or any(is_of_others(entry) for entry in sys.path[:200]):
        # Files of root's in a user's environment are ones that he cannot remove. What this starts has it from the environment.
        sys.dont_write_bytecode, os.environ["PYTHONDONTWRITEBYTECODE"] = True, "1"
    jsonl = load("jsonl")
    options = jsonl.json.loads(sys.argv[1])
    options["began"] = began
    writer = jsonl.Writer(options["out"])
    writer.line(begin="start", pid=os.getpid(), at=time.monotonic())
    if options.get("world"):
        load("world_parent").main(options, writer)
        return
    if options.get("rank") is None and not options.get("only"):
        # A finder of the patient's that hangs where torch is looked for is then told by its stack.
        load("processes").leave_stacks(os.path.join(options["folder"], "agent.stack"))
        load("processes").die_with_the_pipe(options.get("tie", ()))
        inventory = load("inventory")
        writer.section("python", inventory.python_facts)
        writer.section("packages", inventory.package_facts, HERE)
        torch = writer.section("torch_static", inventory.torch_static)
        if options["static"] or torch is None:
            writer.line(end=True, at=time.monotonic())
            return
    load("torch_steps").main(options, writer)
    writer.line(end=True, at=time.monotonic())


def is_of_others(folder):
    # type: (Any) -> bool
    """Whether a folder belongs to neither this user nor root."""
    try:
        return isinstance(folder, str) and os.stat(folder or ".").st_uid not in (0, os.geteuid())
    except (OSError, ValueError, AttributeError):  # it is not there, it is no name, Windows
        return False


def load(name):
    # type: (str) -> Any
    """A module of the package. What it imports at its top comes along."""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    __import__("envcheck_agent.import_guard")
    sys.dont_write_bytecode = writes
    with sys.modules["envcheck_agent.import_guard"].ImportGuard():
        __import__("envcheck_agent." + name)
    return sys.modules["envcheck_agent." + name]


if __name__ == "__main__":
    code = 0
    try:
        main()
    except BaseException:
        code = 1
        sys.__excepthook__(*sys.exc_info())
    if "envcheck_agent.temporary" in sys.modules:
        sys.modules["envcheck_agent.temporary"].clean()
    # Without the interpreter's teardown: it costs as much as a second, and a broken library may hang in it.
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BaseException:
            pass
    os._exit(code)
