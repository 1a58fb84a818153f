"""The checks of the profile ``interop``: from one framework to another, and back."""
