# SPDX-License-Identifier: Apache-2.0
"""Fair timing of several ways to do one thing: turn by turn, each alone on the machine, by medians."""
import statistics
import time

BURST_SECONDS = 0.02  # short calls are repeated for so long within a turn
PAUSE_SECONDS = 0.003  # before a turn: idle threads of the one before stop spinning


def call_time(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def turn(call, expected):
    """The median call of one turn; the first does not count, unless calls are so long that caches cannot matter."""
    time.sleep(PAUSE_SECONDS)
    if expected < 0.1:
        call()
    times = [call_time(call)]
    while sum(times) < BURST_SECONDS:
        times.append(call_time(call))
    return statistics.median(times)


def interleave(calls, repeats):
    """{name: call} to {name: [seconds of each repeat]}. The order turns with every repeat."""
    for call in calls.values():
        call()
    expected = {name: call_time(call) for name, call in calls.items()}
    names, seconds = list(calls), {name: [] for name in calls}
    for repeat in range(repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(turn(calls[name], expected[name]))
    return seconds


def ratio(slow, fast):
    """How many times faster: the median over repeats of the ratio within one repeat, which drift of the machine leaves alone."""
    return statistics.median(a / b for a, b in zip(slow, fast))


def geometric_mean(values):
    values = list(values)
    return statistics.geometric_mean(values) if values else float("nan")
