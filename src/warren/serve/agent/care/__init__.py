"""Care for the devices of an agent: what does nothing, what is faulty, and tests."""
