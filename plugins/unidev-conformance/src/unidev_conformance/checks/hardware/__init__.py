"""The checks of the profile ``hardware``: what simulated GPUs cannot show."""
