"""What a run leaves behind: columns while it runs, views and files when it is over.

``Recorder`` is what the engine and the gateway write to; its ``result`` makes the ``Result`` with ``requests()``,
``timeseries()``, ``summary()``, ``ledger()`` and ``write()``. ``load`` reads a finished run back.
"""

from servetwin.results.drafts import DraftUse
from servetwin.results.meta import HandOverMeta, PoolMeta, RunMeta
from servetwin.results.recorder import Recorder
from servetwin.results.result import Result
from servetwin.results.store import StoredResult, load

__all__ = ["DraftUse", "HandOverMeta", "PoolMeta", "Recorder", "Result", "RunMeta", "StoredResult", "load"]
