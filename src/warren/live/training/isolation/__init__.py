"""Rules for the changes that a task may make, and the search for any other change."""
