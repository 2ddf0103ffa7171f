"""The paper's tables and figures by command, and ours beside them: `smofi reproduce`.

Internal: may change without notice.
"""
