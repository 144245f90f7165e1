"""The plain loop that every engine must equal, and the check of an app against itself."""
