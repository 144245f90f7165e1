"""All messages, and the sockets that carry them."""
