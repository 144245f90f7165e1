"""``python -m warren`` is the command ``warren``."""

import os
import sys

# Python searches the current folder first, where a random.py of the user's would stand in for its
# own. It stays where Warren itself lies there.
if not sys.flags.safe_path and sys.path[0] != os.path.dirname(os.path.dirname(__file__)):
    del sys.path[0]

from warren.cli.main import main

main()
