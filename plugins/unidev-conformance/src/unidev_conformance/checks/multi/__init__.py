"""The checks of the profile ``multi``: several devices in one process."""
