"""The workers of a run on one host: their processes, messages and memory, ports and folders.

Below the contract, which hands on what a launcher needs of it.
"""
