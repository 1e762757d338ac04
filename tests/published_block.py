"""Models with the published layers, for tests whose numbers would be others with other defaults."""

from polynsd import PolyNSD
from polynsd.published import PUBLISHED_LAYER


def published(*sizes, kind=PolyNSD, **options):
    """A sheaf model with the published value of every option of its layers that is not given."""
    return kind(*sizes, **PUBLISHED_LAYER | kind.preset | options)
