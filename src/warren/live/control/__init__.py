"""The controller: what was sent, what came back, who is lost, and the loop's port."""
