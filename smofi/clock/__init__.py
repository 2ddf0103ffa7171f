"""Virtual time: devices, what a model costs them, and how long rounds take.

devices.py       how fast a client's device computes and sends      tables.py      what phones were measured to be like
presence.py      when a device is available                         phones.py      how phones are written
availability.py, sheet.py   traces; CSV files
costs.py         what a step and a round cost it, from the model    timing.py      the settings of virtual time
jobs.py          what clients do in a round, and how they wait      replay.py      a round, event by event
closed_form.py   the same by a formula
clock.py         what becomes of a round's plan, and how long it takes

Internal: may change without notice.
"""

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.clock.clock import Clock, start_clock
    from smofi.clock.devices import Device
    from smofi.clock.presence import Presence
    from smofi.clock.timing import CLOCKS, Timing
else:
    load_later(__name__, clock="Clock start_clock", devices="Device", presence="Presence", timing="CLOCKS Timing")

__all__ = ["CLOCKS", "Clock", "Device", "Presence", "Timing", "start_clock"]
