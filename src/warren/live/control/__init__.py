"""The controller: messages sent and received, lost processes, and the loop's port."""
