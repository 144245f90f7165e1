"""The real thing: controller, executors, servers, transport, engines."""
