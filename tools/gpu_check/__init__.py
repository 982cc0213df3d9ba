"""The modules of tools/gpu-check: one per kind of part, and those that they share."""
