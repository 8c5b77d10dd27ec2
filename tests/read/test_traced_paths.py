"""Files of a traceback by where they lie, and a torch that an installer replaced."""

from __future__ import annotations

import pytest

from envcheck.read.claims import read_prose

CHECKOUT = "  File \"/home/me/mmcv/mmcv/video/optflow.py\", line 6, in <module>\nModuleNotFoundError: No module named 'mmcv._ext'"
PART = "ImportError: cannot import name '_C' from 'detectron2' (/content/detectron2/detectron2/__init__.py)"
INSTALLED = "ImportError: cannot import name '_C' from 'detectron2' (/opt/venv/lib/python3.10/site-packages/detectron2/__init__.py)"
USER = (
    'File "/opt/a/lib/python3.10/site-packages/torchaudio/_extension.py", line 52, in _load_lib\n'
    'File "/home/me/.local/lib/python3.10/site-packages/torch/_ops.py", line 643, in load_library'
)
WINDOWS = (
    'File "C:\\envs\\sd\\lib\\site-packages\\xformers\\ops\\fmha.py", line 3\n'
    'File "C:\\Users\\me\\AppData\\Roaming\\Python\\Python310\\site-packages\\torch\\cuda\\__init__.py", line 239'
)
OWN = (
    'File "/data/me/ops/knn.py", line 3, in <module>\n    import knn_cuda\n'
    "ImportError: libcudart.so.10.1: cannot open shared object file: No such file or directory"
)
NOTEBOOK = (
    "ImportError: libcublas.so.11: cannot open shared object file\n\n/content/net/utils.py in <module>\n      9 import torch\n"
    "---> 10 import pointnet2_cuda as pointnet2\n\nImportError: libcublas.so.11: cannot open shared object file: No such file"
)
PIP = "Uninstalling torch-2.5.1+cu121:\nSuccessfully installed numpy-2.1.0 torch-2.6.0"
UV = " - torch==2.5.1+cu121\n + torch==2.6.0"


@pytest.mark.parametrize(
    ("text", "symptom", "values"),
    [
        (CHECKOUT, "package-from-its-checkout", {"path": "/home/me/mmcv/mmcv", "package": "mmcv"}),
        (PART, "package-from-its-checkout", {"path": "/content/detectron2/detectron2"}),
        (USER, "torch-of-the-user-site", {"path": "/home/me/.local/lib/python3.10/site-packages"}),
        (WINDOWS, "torch-of-the-user-site", {"env": "C:\\envs\\sd\\lib\\site-packages"}),
        (OWN, "library-of-an-own-extension", {"library": "libcudart.so.10.1", "extension": "knn_cuda"}),
        (NOTEBOOK, "library-of-an-own-extension", {"extension": "pointnet2_cuda"}),
        (PIP, "torch-replaced", {"old": "2.5.1+cu121", "new": "2.6.0"}),
        (UV, "torch-replaced", {"index": "cu121"}),
    ],
)
def test_where_files_lie_is_a_sign(text: str, symptom: str, values: dict[str, str]) -> None:
    found = read_prose(text)
    signs = {one.symptom: one.values for one in found.signs} if found else {}
    assert values.items() <= signs[symptom].items()


@pytest.mark.parametrize(
    "text",
    [
        INSTALLED,
        CHECKOUT.replace("/home/me/mmcv/", "/opt/venv/lib/python3.10/site-packages/"),
        OWN.replace("/data/me/ops/", "/opt/venv/lib/python3.10/site-packages/ops/"),
        OWN.replace("import knn_cuda", "import torch"),
        OWN.partition("ImportError")[0].partition("\n")[0] + "\nImportError: libcudart.so.10.1: cannot open shared object file",
        USER.replace("/home/me/.local", "/opt/a"),
        USER.replace("/opt/a/", "/home/me/.local/"),
        "Uninstalling torch-2.5.1:\nSuccessfully installed torch-2.6.0",
        "Uninstalling torch-2.5.1+cu121:\nSuccessfully installed torch-2.5.1+cu121",
    ],
)
def test_an_installation_of_its_own_is_no_sign(text: str) -> None:
    found = read_prose(text)
    assert not found or not found.signs


ASKS = (
    'File "/opt/venv/lib/python3.10/site-packages/basicsr/data/degradations.py", line 8, in <module>\n'
    "    from torchvision.transforms.functional_tensor import rgb_to_grayscale\n"
    "ModuleNotFoundError: No module named 'torchvision.transforms.functional_tensor'"
)
OF_TORCH = (
    'File "/opt/venv/lib/python3.10/site-packages/torchvision/_meta.py", line 3, in <module>\n'
    'File "/opt/venv/lib/python3.10/site-packages/torch/library.py", line 9, in <module>\n'
    "AttributeError: module 'torch.library' has no attribute 'register_fake'"
)
MINE = "  File \"/home/me/train.py\", line 3\nImportError: cannot import name 'inf' from 'torch._six'"


@pytest.mark.parametrize("text, asker", [(ASKS, "basicsr"), (OF_TORCH, "torchvision"), (MINE, None)], ids=["other", "companion", "own"])
def test_the_package_that_asks_torch_for_a_name(text: str, asker: str | None) -> None:
    found = read_prose(text)
    signs = [one.values["asker"] for one in (found.signs if found else ()) if one.symptom == "torch-name-asker"]
    assert signs == ([asker] if asker else [])
