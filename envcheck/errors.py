"""The one exception that reaches `cli.main`."""


class UsageError(Exception):
    """What the user asked for cannot be done; the message is one line and ends up on stderr with exit 2."""
