"""``python -m warren.serve.agent``."""

from __future__ import annotations

import sys

from warren.serve.agent.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
