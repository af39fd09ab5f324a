"""A time axis that gives every moment room: time between moments is to scale as far as it can be.

Elections and commits happen within a millisecond and minutes apart. So every moment is at least
``GAP`` from the one before it, and only what is left of the width is shared out by time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from reports.blocks import Tick
from reports.text import seconds

LEFT, RIGHT = 2.5, 97.5  # percent of the width
GAP = 5.8  # percent: two marks side by side on the narrowest screen
LABEL = 21.0  # percent: a tick's label on the narrowest screen

Moment = tuple[int, int]  # time in ns, place among those of the same time


class Axis:
    """Places of moments, in percent of the width."""

    def __init__(self, moments: Iterable[Moment]) -> None:
        """``moments``: all that need a place of their own; at least one."""
        self._moments = sorted(set(moments)) or [(0, 0)]
        self._times = [time for time, _ in self._moments]
        self._places = _spread(self._times)

    def of(self, moment: Moment) -> float:
        """The place of one of the moments."""
        return self._places[bisect_left(self._moments, moment)]

    def at(self, time_ns: int, *, last: bool = False) -> float:
        """The place of any time; of several moments at that time the first, or the last."""
        if last:
            after = bisect_right(self._times, time_ns)
            if after and self._times[after - 1] == time_ns:
                return self._places[after - 1]
        right = bisect_left(self._times, time_ns)
        if right == len(self._times):
            return self._places[-1]
        if right == 0 or self._times[right] == time_ns:
            return self._places[right]
        low, high = self._times[right - 1], self._times[right]
        share = (time_ns - low) / (high - low)
        return round(_between(self._places[right - 1], self._places[right], share), 2)

    def ticks(self) -> tuple[Tick, ...]:
        """Labels for as many moments as there is room for, first and last among them."""
        out = [Tick(self._places[0], seconds(self._times[0]), "start")]
        if self._times[-1] == self._times[0]:
            return tuple(out)
        last = Tick(self._places[-1], seconds(self._times[-1]), "end")
        free_from, free_to = self._places[0] + 1.5 * LABEL, last.x - 1.5 * LABEL
        shown = {out[0].text, last.text}
        for place, time in zip(self._places, self._times, strict=True):
            text = seconds(time)
            if free_from <= place <= free_to and text not in shown:
                out.append(Tick(place, text))
                shown.add(text)
                free_from = place + LABEL
        return (*out, last)


def _spread(times: Sequence[int]) -> list[float]:
    """Places of sorted times, equal ones side by side."""
    width, count = RIGHT - LEFT, len(times) - 1
    if count == 0:
        return [(LEFT + RIGHT) / 2]
    gap = min(GAP, width / count)
    whole, spare = times[-1] - times[0], width - gap * count
    return [
        round(LEFT + gap * at + (spare * (time - times[0]) / whole if whole else 0.0), 2)
        for at, time in enumerate(times)
    ]


def _between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share
