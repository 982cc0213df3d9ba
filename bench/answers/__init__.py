"""Of ../same_answers: what is asked of the program, and how the answers are compared."""
