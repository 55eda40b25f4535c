"""``servetwin calibrate serving``: the constants of a family of engines, from serving runs."""
