"""TensorFlow's operation ``DeepCopy``."""
