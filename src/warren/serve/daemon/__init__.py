"""The daemon: requests in, events to disk, orders to hosts."""
