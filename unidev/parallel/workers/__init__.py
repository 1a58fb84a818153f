"""The processes of the workers on one host: started, heard, and ended together."""
