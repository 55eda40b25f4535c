"""``check``: do the scenarios of a suite keep their promises, and is any of them worse than its baseline?

The way of a check, in reading order: ``suite`` reads the file; ``plan`` resolves every scenario, reads every baseline
and every assertion, so that a mistake ends the check before anything runs; ``running`` runs each scenario with each of
its seeds; ``verdicts`` holds the assertions (``assertions``) against the results and compares these (``comparison``)
with the ``baseline``; ``document`` says what came of it.
"""
