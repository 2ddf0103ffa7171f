"""Many runs by one command: cells of one method and one seed, each a process of its own, found again when done.

Internal: may change without notice.
"""
