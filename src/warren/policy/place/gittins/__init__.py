"""An online policy of ours: the Gittins index, and prices of device types."""
