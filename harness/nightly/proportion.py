"""Says how sure a share of so many tries is."""

from __future__ import annotations

import math

Z_95 = 1.959964  # standard deviations on each side that hold 95 %


def wilson(hits: int, tries: int) -> tuple[float, float]:
    """The 95 % interval of the chance behind ``hits`` of at least one try: from, to, in [0, 1].

    Source: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference" (1927).
    """
    share = hits / tries
    middle = share + Z_95**2 / (2 * tries)
    spread = Z_95 * math.sqrt(share * (1 - share) / tries + Z_95**2 / (4 * tries**2))
    scale = 1 + Z_95**2 / tries
    return max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale)
