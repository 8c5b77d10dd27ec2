"""A nox session that checks the environment before the tests that train.

torch-envcheck is not on PyPI yet: `pip wheel --no-deps -w dist PATH/TO/CHECKOUT` beside this file makes the wheel.
"""

import glob

import nox


@nox.session
def train(session: nox.Session) -> None:
    session.install("torch", "numpy", *glob.glob("dist/torch_envcheck-*.whl"), "pytest")
    session.run("envcheck", "--quiet")
    session.run("pytest", "tests/train")
