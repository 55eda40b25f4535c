"""ServeGen client data (alibaba/ServeGen, Apache-2.0; NSDI'26): a folder from which the clients' traffic is made again.

Each client has two files. ``chunk-I-trace.csv``, no header: start of a window [s], requests per second in it,
coefficient of variation (CV) of the gaps between them, the family that fits the gaps (``Gamma``, ``Weibull``, or
nothing), and its two parameters. ``chunk-I-dataset.json``: start of a (longer) window → field → the distribution of its
values, ``{value: share}`` as text; ``input_tokens`` and ``output_tokens`` are used, others (share of reasoning, images)
are not. Written against eight clients of ``deepseek-r1``.

The trace lists no requests, so they are drawn, see ``servegen_draws``: in every window as many as were recorded, gaps
of the recorded CV and family, lengths that follow the recorded distributions. A window without lengths takes those of
the client's last window before it that has some, or else of the first. The seed decides about the order of gaps and
lengths. Each client is a class of its own, ``chunk-I``. Requests share nothing, and nothing ties the prompt of a
request to its answer.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from pathlib import Path

from servetwin.errors import TraceError
from servetwin.streams import Streams
from servetwin.units import PS_PER_S
from servetwin.workload.traces.format import FileFormat, Row, RowError
from servetwin.workload.traces.servegen_draws import LengthDraws, arrivals
from servetwin.workload.traces.servegen_files import Client, Window, read_client

_TRACE = re.compile(r"chunk-(\d{1,9})-trace\.csv(\.gz|\.zst)?", re.ASCII)

Item = tuple[int, int, str, Row | RowError]
"""Time [ps], number of the client, place in its file, and the request."""


class ServeGenFormat(FileFormat):
    """Folders of ServeGen clients."""

    name = "servegen"
    description = "Folder of ServeGen clients: their traffic is drawn again from rates, CVs and length distributions"
    layout = "a folder with chunk-I-trace.csv and chunk-I-dataset.json"

    def recognises_file(self, path: Path, head: bytes) -> bool:
        """Whether the folder has a client."""
        return bool(_trace_files(path))

    def rows(self, path: Path, shown: str, streams: Streams) -> Iterator[tuple[str, Row | RowError]]:
        """The requests of all clients in order of time."""
        files = _trace_files(path)
        if not files:
            raise TraceError("there is no ServeGen client in this folder", file=shown, allowed=self.layout)
        clients = [_requests(read_client(file, shown), at, streams) for at, file in enumerate(files)]
        for _, _, place, row in heapq.merge(*clients, key=lambda item: item[:2]):
            yield place, row


def _trace_files(folder: Path) -> list[Path]:
    """The trace files of a folder, in the order of their clients."""
    try:
        names = sorted((entry.name for entry in folder.iterdir()), reverse=True) if folder.is_dir() else []
    except OSError:
        return []
    # A plain file stands before the compressed one of the same client.
    clients = {int(match[1]): folder / name for name in names if (match := _TRACE.fullmatch(name))}
    return [clients[number] for number in sorted(clients)]


def _requests(client: Client, number: int, streams: Streams) -> Iterator[Item]:
    generator = streams.generator("workload", "servegen", client.name)
    lengths = LengthDraws(client, generator)
    for window in client.windows:
        start_ps = round(window.start_s * PS_PER_S)
        if window.error is not None:
            yield start_ps, number, window.place, window.error
        elif window.requests:
            yield from _window(client, number, window, [start_ps + at for at in arrivals(window, generator)], lengths)


def _window(client: Client, number: int, window: Window, times: list[int], lengths: LengthDraws) -> Iterator[Item]:
    if not client.data:
        for time in times:
            yield time, number, window.place, client.no_data
        return
    prompts, outputs = lengths.draw(window.start_s, len(times))
    for time, prompt, output in zip(times, prompts, outputs, strict=True):
        yield time, number, window.place, Row(time, prompt, output, (), client.name)
