"""What a configuration will do and take, before anything is trained.

summary.py   clients, steps, parameters on each side of the cut, memory and time of a run: `smofi plan`
timing.py    how long its rounds take, from real steps on copies
advice.py    what every cut means for the clients' devices, from planned rounds: `smofi advise`

Internal: may change without notice.
"""

from smofi.planning.summary import CutParameters, Memory, PlanSummary, Seconds, over_seeds, plan_run

__all__ = ["CutParameters", "Memory", "PlanSummary", "Seconds", "over_seeds", "plan_run"]
