"""tools/torch_names.py: the names in a wheel made up here, what changed between releases, and well-known names in the real table."""

from __future__ import annotations

import datetime
import io
import zipfile
from pathlib import Path

import pytest
import torch_names
import wheel_names

from envcheck.checks.torch_names import history
from envcheck.tables.compat import Tables
from envcheck.tables.folders import rules_folder
from envcheck.tables.toml import parse_toml

FILES = {
    "torch/__init__.py": (
        "from typing import Any\nfrom ._tensor import Tensor\nfrom torch import nn as nn\nX: int = 1\n__all__ = ['listed']\n"
    ),
    "torch/_tensor.py": "import torch._C as c\n\nclass Tensor(c.TensorBase):\n    def backward(self):\n        inner = 1\n",
    "torch/_C/__init__.pyi": "class TensorBase:\n    def add(self) -> None: ...\nfloat8: dtype = ...\ndef _hidden() -> None: ...\n",
    "torch/_C/_VariableFunctions.pyi": "def conv2d() -> None: ...\n",
    "torch/nn/__init__.py": (
        "from .modules import *\nif True:\n    from .modules import _own as renamed\nif TYPE_CHECKING:\n    from .modules import Seen\n"
    ),
    "torch/nn/modules.py": (
        "class Linear: pass\n_own, other = 1, 2\ntry:\n    from numpy import array\nexcept ImportError:\n    fallback = None\n"
    ),
    "torch/nn/text.py": 'def f():\n    """A line\nat the margin."""\n\nafter = 1\n',
    "torch/nn/old.py": "print 1\n",
    "torch/_closed/__init__.py": "given = 1\n",
    "torch/_closed/inner.py": "secret = 1\n",
    "other/__init__.py": "x = 1\n",
}


TABLES = Tables((rules_folder("compat"),))


def archive(files: dict[str, str]) -> zipfile.ZipFile:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return zipfile.ZipFile(content)


def test_what_a_wheel_defines() -> None:
    names = wheel_names.names_in(archive(FILES), "torch", ("torch._closed",))
    assert names["torch"] == {"Tensor", "nn", "X", "listed", "float8", "conv2d", "TensorBase", "_tensor", "_C", "_closed"}
    assert names["torch.Tensor"] == {"add", "backward"}
    assert names["torch.nn"] == {"Linear", "other", "fallback", "renamed", "modules", "text", "old"}
    assert names["torch.nn.text"] == {"f", "after"}
    assert names["torch.nn.old"] == frozenset()
    assert names["torch._closed"] == {"given", "inner"}
    assert not {"torch._C", "torch._closed.inner", "other"} & names.keys()


def test_what_came_and_what_went() -> None:
    read = [
        ("1.9.0", {"torch": {"a", "old"}, "torch.old": {"x"}}),
        ("1.10.0", {"torch": {"a", "new"}, "torch.new": {"y"}}),
        ("1.11.0", {"torch": {"a", "new"}, "torch.new": {"y", "z"}}),
    ]
    came, gone = torch_names.changes([(release, {name: frozenset(of) for name, of in names.items()}) for release, names in read])
    assert came == {("torch", "1.10.0"): {"new"}, ("torch.new", "1.11.0"): {"z"}}
    assert gone == {("torch", "1.9.0"): {"old"}}
    text = torch_names.table_text({"torch": (came, gone)}, datetime.date(2026, 1, 2))
    rows = parse_toml(text)["since"]["rows"]
    assert rows[0] == {"module": "torch", "since": "1.10.0", "names": "new", "source": "pypi"}


def test_one_release_of_each_minor_version() -> None:
    found = torch_names.releases("torchvision", TABLES)
    assert found.index("0.9.0") < found.index("0.10.0") < found.index("0.11.1") < found.index("0.15.1")
    assert "0.11.2" not in found


@pytest.mark.parametrize(
    "asked, since, last",
    [
        ("torch._six", None, "1.13.0"),
        ("torch._six.container_abcs", None, "1.8.0"),
        ("torch.rfft", None, "1.7.0"),
        ("torch.compile", "2.0.0", None),
        ("torch.nn.RMSNorm", "2.4.0", None),
        ("torch.amp.GradScaler", "2.3.0", None),
        ("torch.distributed.fsdp", "1.11.0", None),
        ("torchvision.transforms.functional_tensor.rgb_to_grayscale", None, "0.16.0"),
        ("torchvision.models.utils.load_state_dict_from_url", None, "0.10.0"),
        ("torchtext.legacy.data", "0.9.0", "0.11.0"),
        ("torchtext.data.Field", None, "0.8.0"),
        ("torchdata.datapipes.iter", None, "0.9.0"),
        ("torchaudio.backend.sox_io_backend", None, "2.8.0"),
        ("torch.nn.modules.linear._LinearWithBias", None, "1.8.0"),
        ("torch.nn.Linear", None, None),
    ],
)
def test_names_that_are_well_known(asked: str, since: str | None, last: str | None) -> None:
    assert history(TABLES, asked)[:2] == (since, last)


def test_the_table_stays_small() -> None:
    assert Path(rules_folder("compat"), torch_names.TABLE).stat().st_size <= 250 << 10
