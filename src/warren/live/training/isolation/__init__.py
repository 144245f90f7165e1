"""Rules of what a task may change, and the search for anything else that it does."""
