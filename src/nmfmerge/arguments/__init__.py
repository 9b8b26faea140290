"""How one argument is checked, and what an error about it says, in Python and in a shell.

An error names the argument as the user typed it, what was expected, what came and how to fix it.
"""
