"""The interface that user code implements."""
