"""Sessions while they run: the driver that wakes them, and those who follow them."""
