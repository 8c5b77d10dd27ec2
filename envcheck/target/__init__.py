"""The interpreter under test: which one it is, its agent's process, and what the agent says as facts."""
