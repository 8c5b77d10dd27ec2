"""A nox session that checks the environment before the tests that train."""

import nox


@nox.session
def train(session: nox.Session) -> None:
    session.install("torch", "numpy", "torch-envcheck", "pytest")
    session.run("envcheck", "--quiet")
    session.run("pytest", "tests/train")
