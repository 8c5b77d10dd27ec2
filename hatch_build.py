"""Build hook: the wheel has the rule and table files as JSON, for a quick start (see envcheck/tables/toml.py)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RulesAsJson(BuildHookInterface):
    """Runs for wheels; an editable install reads the TOML files of its checkout."""

    PLUGIN_NAME = "rules-as-json"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        sys.path.insert(0, self.root)
        from envcheck.symptoms.scan import with_anchors
        from envcheck.tables.toml import as_json, json_name

        rules = Path(self.root, "rules")
        self.made = tempfile.TemporaryDirectory()
        for number, path in enumerate(sorted(rules.rglob("*.toml"))):
            made = Path(self.made.name, str(number))
            text = path.read_text(encoding="utf-8")
            shipped = as_json(text, with_anchors) if path.parent.name == "symptoms" else as_json(text)
            made.write_text(shipped, encoding="utf-8")
            build_data["force_include"][str(made)] = f"envcheck/_rules/{json_name(path.relative_to(rules).as_posix())}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "made"):
            self.made.cleanup()
