"""spike-mcp: the referee of a coding agent's time-boxed spike. Start reading at docs/architecture.md."""

__version__ = "0.1.0"
