"""Show what is known about runs to people: tables and curves on the terminal, pictures in files.

Internal: may change without notice.
"""
