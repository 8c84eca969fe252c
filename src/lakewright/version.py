"""The version of lakewright: the package, the snapshots it writes and the command line take it from here."""

__version__ = "0.1.0"
