import sys

if __name__ == "__main__":
    # `python -m` puts the working folder first: a random.py of the user's there is a finding, and must not be taken for Python's own.
    if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
        del sys.path[0]
    from envcheck.cli import main

    sys.exit(main())
