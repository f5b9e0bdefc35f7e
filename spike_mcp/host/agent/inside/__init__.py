"""Files that are copied into the agent's sandbox and run there: standard library only."""
