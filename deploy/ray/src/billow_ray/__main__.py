"""python -m billow_ray: the command `billow-ray`."""

import sys

from .cli import main

sys.exit(main())
