"""Effects: the only code that touches the machine. Knows core, never an edge."""
