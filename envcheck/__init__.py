"""Tells, before training starts, whether this PyTorch environment will train."""

__version__ = "0.1.0"
