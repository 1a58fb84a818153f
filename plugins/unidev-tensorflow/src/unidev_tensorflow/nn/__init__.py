"""The layers and functions of ``unidev.nn`` on TensorFlow."""
