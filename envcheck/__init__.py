"""Tells, before training starts, whether this PyTorch environment will train."""

__version__ = "0.1.0"

FOLDER = __path__[0]  # of this package: the agent, programs of probes, schemas and rules lie in it
