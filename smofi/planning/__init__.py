"""What a configuration will do and take, before anything is trained.

Internal: may change without notice.
"""

from smofi.planning.summary import CutParameters, PlanSummary, Seconds, over_seeds, plan_run

__all__ = ["CutParameters", "PlanSummary", "Seconds", "over_seeds", "plan_run"]
