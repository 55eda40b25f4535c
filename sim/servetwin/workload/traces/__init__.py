"""Recorded traffic: reading trace files and replaying them.

* ``format`` is the seam: a row, and what a format has to offer. ``azure`` and ``mooncake`` are formats,
  ``registry`` knows them and tells from a file's first line which one it has.
* ``lines`` reads text files, plain or gzip, in blocks.
* ``spec`` is what a scenario writes under ``workload.trace``; ``trace`` reads the file it names.
"""
