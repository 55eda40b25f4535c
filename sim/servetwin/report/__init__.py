"""What a user sees of a finished run: terminal tables, pictures, and a timeline for Perfetto.

Import the module you need (``tables``, ``figures``, ``perfetto``): the imports behind them are costly.
"""
