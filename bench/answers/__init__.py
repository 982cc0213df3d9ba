"""The commands of ../same_answers, and how their answers are compared."""
