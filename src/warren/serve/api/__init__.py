"""The HTTP API: routes, who asks, and what callers may see."""
