"""Transfers between devices, and the lines that they come from: traces and guards."""
