"""TensorFlow's collectives between processes."""
