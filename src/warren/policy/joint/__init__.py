"""Which jobs share hosts, and when does each compute? Policies that answer several questions."""
