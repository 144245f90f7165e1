"""Jobs matched to places and to device types."""
