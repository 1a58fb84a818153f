"""The checks of the profile ``train``: gradients, models, layers, checkpoints."""
