"""spike-mcp: the referee of a coding agent's time-boxed spike. Start at docs/architecture.md."""

__version__ = "0.1.0"
