"""The steps that import torch: the import itself, what torch states of itself, the devices in a child, and the live check.

Before the fork it only imports and reads constants: no tensor operation, no cuInit (a CUDA context or an OpenMP team of the parent does
not survive a fork).
"""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
import warnings

from . import devices, jsonl, processes, temporary, torch_constants, working_folder
from .import_guard import ImportGuard

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

# Variable, folder in ours, and whether torch chooses one by itself where it is not set
CACHES = (
    ("TORCHINDUCTOR_CACHE_DIR", "inductor", True), ("TRITON_CACHE_DIR", "triton", True), ("TORCH_COMPILE_DEBUG_DIR", "debug", True),
    ("TORCH_TRACE", "trace", False), ("TORCH_DTRACE", "trace", False),
)  # fmt: skip


def main(options: Dict[str, Any], writer: jsonl.Writer) -> None:
    prepare(options)
    if options.get("rank") is not None:  # a spawned rank
        import_torch(raising=True)
        gc.enable()
        with ImportGuard():
            from . import rank
        rank.serve(options, full_tasks() if options["live"] == "full" else {})
    if options.get("only") == "devices":
        import_torch(raising=True)
        devices.answer(writer.line, options["live"] != "off", forked=False)
        return
    writer.line(begin="import", at=time.monotonic())
    imported = import_torch()
    writer.line(section="import", value=imported)
    if imported["status"] != "ok":
        return
    import torch

    keep_caches(options)  # the import may have emptied the environment
    writer.section("torch", torch_constants.torch_facts, torch)
    writer.section("backends", torch_constants.backend_facts, torch)
    processes.keep_exit_statuses()  # the import may have changed that
    processes.keep_standard_descriptors()
    # The caller ends us at began + live_seconds; what is still under way then must have been written before.
    deadline = options["began"] + options["live_seconds"] - min(4.0, 0.15 * options["live_seconds"])
    no_fork = reason_not_to_fork(torch, options)
    child = devices.start(options, torch, no_fork is None)
    if options["live"] == "off":
        devices.finish(child, options, writer, deadline)
        return
    if no_fork is None and training_imports_dynamo(torch) and not writer.section("preload", preload):
        # Half of it is in our memory now: a forked rank would stumble over that half and not over the fault.
        no_fork = "importing torch._dynamo failed"
    asked = devices.finish(child, options, writer, deadline)
    if child and child.poisoned:
        no_fork = "a child forked after the import may not use CUDA: something that is imported with torch has used it"
    gc.freeze()  # what the ranks share with us stays shared: no collection of theirs will touch it
    gc.enable()
    # How slow this machine is: the import, and whatever of it a sitecustomize has done before us.
    slowness = max(imported["seconds"], time.process_time() / 2)
    live_check(options, writer, asked, no_fork, max(10.0, min(60.0, 3 * slowness + 5)), deadline)


def prepare(options: Dict[str, Any]) -> None:
    """What has to be so before torch is imported."""
    processes.keep_exit_statuses()
    if own_name(options) != "agent":  # which has done so at its start
        processes.leave_stacks(os.path.join(options["folder"], own_name(options) + ".stack"))
    processes.die_with_parent()
    # Importing makes millions of objects and next to no cyclic garbage; looking for it again and again costs a quarter of the
    # import (torch 2.13). import_seconds is therefore a little below what a program of the user sees.
    gc.disable()
    temporary.keep_in(options["folder"])
    working_folder.leave_out_of_children()
    working_folder.leave(options["folder"])
    keep_caches(options)


def keep_caches(options: Dict[str, Any]) -> None:
    """What torch leaves goes where we clean up, the user's own choice too. (torch._dynamo makes its cache folder when it is imported, and
    some settings import it with torch.) One that takes no file stays: what fails in training has to fail here."""
    for name, below, always in CACHES:
        given = os.environ.get(name)
        if always if given is None else temporary.takes_programs(given):
            os.environ[name] = os.path.join(options["folder"], below)


def live_check(
    options: Dict[str, Any], writer: jsonl.Writer, asked: Any, no_fork: Optional[str], stage_seconds: float, deadline: float
) -> None:
    """The quick check, and with `--live full` all that comes behind it. What goes wrong in the agent itself is the section's error."""
    writer.line(begin="live", at=time.monotonic())
    try:
        with ImportGuard():
            from . import quick_check
        arguments = (options, writer, asked, no_fork, stage_seconds, deadline)
        if options["live"] == "full":
            with ImportGuard():
                from . import full_check
            value = quick_check.check(*arguments, full_check.run_all, full_tasks())
        else:
            value = quick_check.check(*arguments)
    except Exception as error:
        traceback.print_exc()
        writer.line(section="live", error=jsonl.described(error))
    else:
        writer.line(section="live", value=value)


def full_tasks() -> Dict[str, Callable[..., None]]:
    """What ranks of `--live full` may be asked to do, by name."""
    with ImportGuard():
        from . import bandwidth_tasks, collective_tasks, compiler_tasks, multi_process_tasks, single_process_tasks, training_tasks
    modules = (training_tasks, multi_process_tasks, single_process_tasks, collective_tasks, compiler_tasks, bandwidth_tasks)
    return {name: task for module in modules for name, task in module.TASKS.items()}


def own_name(options: Dict[str, Any]) -> str:
    """What the files of this process are called in the private folder."""
    if options.get("rank") is not None:
        return "%s-%d" % (options["arm"]["name"], options["rank"])
    return str(options.get("only") or "agent")


def import_torch(raising: bool = False) -> Dict[str, Any]:
    """The timed import. SystemExit and every other exception are results; a crash or a hang is named by the caller."""
    began = time.monotonic()
    noise = output_size()
    result: Dict[str, Any] = {"status": "ok"}
    with warnings.catch_warnings(record=True, module=warnings) as caught:
        if not any(option.startswith("e") for option in sys.warnoptions):  # -W error breaks the user's import too
            warnings.simplefilter("default")
        try:
            import torch
        except BaseException as error:
            if raising:
                raise
            frames = traceback.extract_tb(error.__traceback__)[-6:]
            result = {
                "status": "exited" if isinstance(error, SystemExit) else "error",
                "type": type(error).__name__,
                "text": jsonl.said(error, 4000),
                "exit_code": exit_code(error.code) if isinstance(error, SystemExit) else None,
                "stack": "".join(traceback.format_list(frames))[-12000:],
            }
        else:
            if jsonl.attempt(lambda: torch.__version__) is None or jsonl.attempt(lambda: torch.tensor) is None:
                place = jsonl.text(lambda: torch.__file__) or "torch"
                result = {"status": "not_torch", "text": "%s has no __version__ and no tensor()" % place}
    result["seconds"] = time.monotonic() - began
    result["warnings"] = [jsonl.said(one.message, 1000) for one in caught or ()][:20]
    result["noise"] = output_size() > noise
    return result


def exit_code(given: Any) -> int:
    """What a shell sees of sys.exit(given): nothing is 0, words are printed and are 1."""
    return given & 0xFF if isinstance(given, int) else int(given is not None)


def output_size() -> int:
    try:
        sys.stdout.flush()
        return os.fstat(1).st_size
    except Exception:
        return 0


def reason_not_to_fork(torch: Any, options: Dict[str, Any]) -> Optional[str]:
    """None where children may be forked; "" where nobody expects them to be; else what stands in the way.

    Fork is right on Linux as long as nothing has initialised CUDA during the import (torch 1.12.0 did).
    """
    if options.get("because"):  # another agent has met something that forbids it
        return str(options["because"])
    if options["start_method"] == "spawn" or sys.platform != "linux":
        return ""
    return "CUDA is initialised by the import itself" if torch_constants.ask(torch, "cuda.is_initialized") else None


def training_imports_dynamo(torch: Any) -> bool:
    """Whether DDP or an optimizer's step imports torch._dynamo, from their sources. From 2.0 on they do; where nobody asks for it, it
    may be there without what it needs in turn."""
    folder = jsonl.text(lambda: os.path.dirname(torch.__file__)) or ""
    if not os.path.isdir(os.path.join(folder, "_dynamo")):
        return False
    group = ("nn", "parallel", "distributed.py"), ("optim", "optimizer.py")
    for parts in group if torch_constants.ask(torch, "distributed.is_available") else group[1:]:
        try:
            with open(os.path.join(folder, *parts), encoding="utf-8") as file:
                if "_dynamo" in file.read():
                    return True
        except (OSError, ValueError):  # a torch without its sources: it is tried
            return True
    return False


def preload() -> bool:
    """What DDP's constructor imports anyway and what costs as much as torch itself; paid once, before the fork."""
    import torch._dynamo
    import torch.nn.parallel

    try:  # torch 2.13: what the optimizers' first step imports, the only module left that a rank would
        import torch.profiler._cupti_monitor  # noqa: F401
    except ImportError:
        pass
    return True
