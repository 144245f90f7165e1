"""Programs that run in the interpreter of the checked command. They import nothing of Warren."""
