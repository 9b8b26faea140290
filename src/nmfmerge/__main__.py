"""``python -m nmfmerge``: the command line."""

import sys

from nmfmerge.cli import main

if __name__ == "__main__":
    sys.exit(main())
