"""The available devices, and their memory."""
