"""`python -m lakewright` is the command line."""

import sys

from lakewright.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
