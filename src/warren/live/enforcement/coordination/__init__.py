"""One coordinator and an agent a host: flows of foreign jobs in one order over several hosts."""
