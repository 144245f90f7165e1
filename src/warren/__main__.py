"""``python -m warren`` is the command ``warren``."""

from warren.cli.main import main

main()
