"""The bodies of the commands: parse, one library call, print."""
