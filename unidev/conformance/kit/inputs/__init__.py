"""What checks make tensors from, and put them into."""
