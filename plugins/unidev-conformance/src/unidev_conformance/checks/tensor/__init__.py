"""The checks of the profile ``tensor``: devices, copies, containers, errors, memory."""
