"""The agent: what runs inside the target interpreter (main.py). Standard library only, Python 3.8 syntax.

In the target these files are the package `envcheck_agent`, which main.py makes, so they import each other relatively; here and in tests
they are `envcheck.agent`. This file is not run in the target.
"""
