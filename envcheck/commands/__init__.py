"""One module a command, as its user types it, and what only commands need."""

# Subcommand → the module whose execute(args) it is.
MODULES = {
    "check": "check", "record": "check", "compare": "compare", "diagnose": "diagnose", "plan": "plan", "fleet": "fleet",
    "explain": "explain", "rules": "explain", "run": "run", "config": "show_config", "init": "init", "schema": "schema",
    "completion": "completion",
}  # fmt: skip
COMMANDS = tuple(MODULES)
