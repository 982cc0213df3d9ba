"""What tools/gpu-check is made of: a module a part, and what they share."""
