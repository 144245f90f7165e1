"""SJF-BCO, what its paper compares it with, and policies of ours for rings."""
