"""Where a request is inside a rank (``Request.state``).

Not here · in the waiting queue · aside, while a connector fills its blocks · back in the waiting queue with them · has
a seat and prefills · decodes · decodes but sits out a step for want of budget · its last token is on the way · has
ended, but a connector still reads its blocks · was aside, and looks again for the tokens that no connector has brought.
"""

OUTSIDE, WAITING, LOADING, LOADED, PREFILLING, DECODING, PAUSED, ENDING, KEPT, LOST = range(10)
