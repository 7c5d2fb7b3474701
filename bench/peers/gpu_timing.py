# SPDX-License-Identifier: Apache-2.0
"""Device times of several ways to do one thing, turn by turn, by PyTorch's events and graphs; the clocks meanwhile."""
import statistics
import subprocess
import time

import torch

CALLS_IN_A_GRAPH = 50
BURST = 256  # calls of one host timing
FLUSH_BYTES = 256 << 20  # several times any L2


class Timer:
    def __init__(self, rounds):
        self.rounds = rounds
        self.flushed = None

    def _events(self, call, repeats, sleep, flush):
        if flush and self.flushed is None:
            self.flushed = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
        pairs = []
        for _ in range(repeats):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            if flush:
                self.flushed.zero_()
            torch.cuda._sleep(sleep)  # the host is ahead when the clock starts
            start.record()
            call()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) for start, end in pairs) * 1e3

    def device(self, calls, repeats=10, sleep=300_000, flush=False):
        """{name: call} to {name: [microseconds of each round]}; the order turns with every round."""
        for call in calls.values():
            for _ in range(3):
                call()
        return self._rounds({name: (lambda c=call: self._events(c, repeats, sleep, flush)) for name, call in calls.items()})

    def graph(self, calls):
        """The same for calls replayed in one graph, so that no host gap is timed."""
        turns = {}
        for name, call in calls.items():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    call()
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(CALLS_IN_A_GRAPH):
                    call()
            graph.replay()
            turns[name] = lambda g=graph: self._events(g.replay, 7, 100_000, False) / CALLS_IN_A_GRAPH
        return self._rounds(turns)

    def host(self, calls, bursts=200):
        """Host time of a call: bursts on an idle stream, the clock stopped before the wait."""

        def turn(call):
            times = []
            for _ in range(bursts // self.rounds + 1):
                torch.cuda.synchronize()
                start = time.perf_counter()
                for _ in range(BURST):
                    call()
                times.append((time.perf_counter() - start) / BURST * 1e6)
            torch.cuda.synchronize()
            return statistics.median(times)

        return self._rounds({name: (lambda c=call: turn(c)) for name, call in calls.items()})

    def _rounds(self, turns):
        names, times = list(turns), {name: [] for name in turns}
        for i in range(self.rounds):
            first = i % len(names) if names else 0
            for name in names[first:] + names[:first]:
                times[name].append(turns[name]())
        return times


class Clocks:
    """nvidia-smi's readings while a part runs."""

    FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")

    def __enter__(self):
        query = "--query-gpu=" + ",".join(self.FIELDS)
        command = ["nvidia-smi", "-i", "0", query, "--format=csv,noheader,nounits", "-lms", "200"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        rows = [line.split(",") for line in self.process.communicate()[0].splitlines()]
        rows = [[float(x) for x in row] for row in rows if len(row) == len(self.FIELDS) and "[" not in "".join(row)]
        columns = dict(zip(self.FIELDS, zip(*rows)))
        self.seen = {name: {"least": min(x), "median": statistics.median(x), "most": max(x)} for name, x in columns.items()}
