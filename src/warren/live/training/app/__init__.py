"""An app: its pinned text, loaded, and called in one way."""
