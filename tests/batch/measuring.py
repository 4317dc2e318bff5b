"""What processes use over some time, beside what they were allowed to use meanwhile."""

import time

STEP = 0.05


def rates(read, seconds):
    """What each of these functions, which read processor seconds, rose by in a second, over so many seconds."""
    return capped_rates(read, (), seconds)[0]


def capped_rates(read, quotas, seconds):
    """(rates, the highest that each of `quotas` was meanwhile): whoever did not get on for a moment is given more for a while, so what stood there
    before and after says too little."""
    highest = [quota() for quota in quotas]
    before = [timed(one) for one in read]
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(STEP if quotas else left, left))
        highest = [max(most, quota()) for most, quota in zip(highest, quotas)]
    after = [timed(one) for one in read]
    return [(last - first) / (ended - began) for (began, first), (ended, last) in zip(before, after)], highest


def timed(read):
    """(when it was read, what): some have to find out first where to read."""
    value = read()
    return time.monotonic(), value
