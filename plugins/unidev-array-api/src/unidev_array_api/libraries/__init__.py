"""A backend for each library: what it needs beside the standard."""
