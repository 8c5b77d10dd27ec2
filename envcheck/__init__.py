"""Tells, before training starts, whether this PyTorch environment will train.

`envcheck.check()`, `envcheck.diagnose(text)` and `envcheck.plan("torch==2.9.*")` are the commands of the same names,
for notebooks and programs; see `envcheck.api`.
"""

TYPE_CHECKING = False  # not out of typing: a typing.py in the user's folder is his fault, and must not be ours

__version__ = "0.1.0"
__all__ = ["Plan", "Report", "__version__", "check", "diagnose", "plan"]

FOLDER = __path__[0]  # of this package: the agent, programs of probes, schemas and rules lie in it

if TYPE_CHECKING:
    from typing import Any

    from envcheck.api import Plan, Report, check, diagnose, plan


def __getattr__(name: str) -> "Any":
    """The public names come when they are first asked for: importing the package costs nothing."""
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("envcheck.api"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
