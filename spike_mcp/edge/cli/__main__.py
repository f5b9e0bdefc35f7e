"""`python -m spike_mcp.edge.cli`."""

import sys

from spike_mcp.edge.cli import main

sys.exit(main())
