"""How many drafted tokens stand: acceptance models of speculative decoding.

* ``spec`` is what a scenario writes under ``speculation.acceptance``; ``resolve`` replaces presets by what they stand
  for; ``build`` makes of it what the engine asks (its protocol ``Fates``).
* ``drawn`` draws fates at random, from the ``numbers`` of each request: ``runs`` turns them into matches, run by run,
  with what ``tables`` prepares. ``levels`` finds the draws that give the acceptance asked for; ``chain`` has the
  arithmetic of what steps read.
* ``recorded`` replays what was measured.
* ``reading`` reads a fate as steps do, for tests and documentation.
"""
