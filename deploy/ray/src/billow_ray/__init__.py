"""Bulk embedding, reranking and generation with Billow on many hosts.

`billow-ray` is the command. `BillowEmbed` is for pipelines of Ray Data. docs/scale-out.md of Billow describes both.
"""

from .errors import BillowUnavailable, InputFault, JobError
from .stage import BillowEmbed

__version__ = "0.1.0"
__all__ = ["BillowEmbed", "BillowUnavailable", "InputFault", "JobError", "__version__"]
