"""The one loop: mutable cluster state, its transitions, invariants, the journal."""
