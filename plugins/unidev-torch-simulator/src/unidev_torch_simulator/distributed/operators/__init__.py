"""The operators ``c10d::…`` for tensors on simulated GPUs."""
