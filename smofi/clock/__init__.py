"""Virtual time: devices, what a model costs them, and how long rounds take.

Internal: may change without notice.
"""

from typing import TYPE_CHECKING

from smofi.later import load_later

if TYPE_CHECKING:
    from smofi.clock.clock import Clock, start_clock
    from smofi.clock.devices import CLOCKS, Device, Presence, Timing
else:
    load_later(__name__, clock="Clock start_clock", devices="CLOCKS Device Presence Timing")

__all__ = ["CLOCKS", "Clock", "Device", "Presence", "Timing", "start_clock"]
