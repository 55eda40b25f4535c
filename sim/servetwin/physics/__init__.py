"""How long a step takes and what fits into memory: operators, their roofline, and the constants beside it."""
