"""Build hook: puts the content of the rule and table files beside them as JSON, for a quick start (see envcheck/tables/toml.py)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NOT_COMPILED = "bases"  # the machines of the rules' examples, which no run reads


class CompiledRules(BuildHookInterface):
    """Runs for wheels; an editable install reads the TOML files of its checkout."""

    PLUGIN_NAME = "compiled-rules"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from envcheck.tables.toml import COMPILED, compile_toml

        rules = Path(self.root, "rules")
        self.made = tempfile.TemporaryDirectory()
        for number, path in enumerate(sorted(rules.rglob("*.toml"))):
            name = path.relative_to(rules)
            if name.parts[0] != NOT_COMPILED:
                made = Path(self.made.name, str(number))
                made.write_text(compile_toml(path.read_bytes()), encoding="utf-8")
                build_data["force_include"][str(made)] = f"envcheck/_rules/{name.as_posix()}{COMPILED}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "made"):
            self.made.cleanup()
