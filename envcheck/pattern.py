"""Regular expressions that are compiled when they are first used: compiling all of them would cost more than a diagnosis."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any


class LazyPattern:
    """Stands for `re.compile(source, flags)`. A wrong expression shows at the first use, not at import."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self.source = source
        self.flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self.source, self.flags)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


if TYPE_CHECKING:

    def pattern(source: str, flags: int = 0) -> re.Pattern[str]: ...

else:
    pattern = LazyPattern
