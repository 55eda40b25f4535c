"""Recorded traffic: reading trace files and replaying them.

* ``format`` is the seam: a row, and what a format has to offer. One module a format: ``azure``, ``mooncake``,
  ``bailian``, ``burstgpt``, ``vidur``, ``splitwise``, ``servegen``, ``own_table`` and ``columns``; ``csv_rows`` and
  ``json_rows`` have what they share. ``registry`` knows them and tells from the content which one a file has.
* ``lines`` reads files, plain or compressed, in blocks; ``opening`` finds the format and parses.
* ``spec`` is what a scenario writes under ``workload.trace``; ``reading`` reads the file it names into a ``trace``,
  whose rows are a ``table`` of columns; ``replay`` makes requests of it.
"""
