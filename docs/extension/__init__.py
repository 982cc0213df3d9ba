"""What the pages of docs/ need beside Sphinx. Only directives.py imports Sphinx; the tests use the rest without it."""
