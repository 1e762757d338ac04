"""Dates as numbers: days since 1970-01-01 (UTC where a date names its zone).

Text is a date if every value is written in one of these ways; which one is learned once, so that other tables
are read alike.

    2024-03-31, 2024-03-31T12:30, 2024-03-31 12:30:00+01:00      "ISO8601"
    2024/03/31                                                   "%Y/%m/%d"
    31.3.2024                                                    "%d.%m.%Y"
    31/3/2024 or 3/31/2024, if a number above 12 shows which     "%d/%m/%Y" or "%m/%d/%Y"
    31/3/2024 12:30 and so on                                    "%d/%m/%Y %H:%M" or "%m/%d/%Y %H:%M"
    31-Mar-2024                                                  "%d-%b-%Y"
    2024-03, the first of the month                              "%Y-%m"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polynsd.errors import DataError
from polynsd.optional import load_table_package

ISO = "ISO8601"
FORMATS = {
    re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"): (ISO,),
    re.compile(r"\d{4}/\d{2}/\d{2}"): ("%Y/%m/%d",),
    re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}"): ("%d.%m.%Y",),
    re.compile(r"\d{1,2}/\d{1,2}/\d{4}"): ("%d/%m/%Y", "%m/%d/%Y"),
    re.compile(r"\d{1,2}/\d{1,2}/\d{4} \d{2}:\d{2}"): ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"),
    re.compile(r"\d{1,2}-[A-Za-z]{3}-\d{4}"): ("%d-%b-%Y",),
    re.compile(r"(19|20)\d{2}-(0[1-9]|1[0-2])"): ("%Y-%m",),
}
DAY = 86_400e6  # microseconds
DAY_MONTH = 12  # a number above is no month


def find_date_format(distinct: Sequence[Any], origin: str) -> str | None:
    """How these different texts write dates; None if they are none."""
    if not distinct or not isinstance(distinct[0], str):
        return None
    for pattern, formats in FORMATS.items():
        if pattern.fullmatch(distinct[0]) and all(map(pattern.fullmatch, distinct)):
            if len(formats) == 1:
                return formats[0]
            is_day_first = _is_day_first(distinct, origin)
            return None if is_day_first is None else formats[0 if is_day_first else 1]
    return None


def find_odd_date(texts: Sequence[str], counts: NDArray[np.int64]) -> tuple[str, str] | None:
    """A date, and a text that is none or is written otherwise, where most rows hold dates.

    Args:
        texts: the different ones.
        counts: in how many rows each of them is.
    """
    for pattern in FORMATS:
        is_odd = np.array([pattern.fullmatch(text) is None for text in texts], dtype=bool)
        if is_odd.any() and 2 * counts[is_odd].sum() < counts.sum():
            return texts[int(is_odd.argmin())], texts[int(is_odd.argmax())]
    return None


def _is_day_first(distinct: Sequence[str], origin: str) -> bool | None:
    """Whether the day or the month comes first; None where neither can."""
    largest = np.array([[int(part) for part in text.split("/")[:2]] for text in distinct]).max(0)
    if (largest > DAY_MONTH).all():
        return None
    if (largest <= DAY_MONTH).all():
        raise DataError(
            f"{origin}: {distinct[0]!r} may be day/month or month/day, and no value tells which. Write dates "
            "as 2024-03-31, or leave the column out with exclude=[...]."
        )
    return bool(largest[0] > DAY_MONTH)


def text_days(distinct: Sequence[str], date_format: str, origin: str) -> NDArray[np.float64]:
    """The days of texts in this format."""
    pd = load_table_package("pandas")
    dates = pd.to_datetime(pd.Series(distinct, dtype=object), format=date_format, utc=True, errors="coerce")
    is_wrong = dates.isna().to_numpy()
    if is_wrong.any():
        shown = "2024-03-31" if date_format == ISO else date_format
        raise DataError(
            f"{origin}: dates are written like {shown} here; {distinct[int(is_wrong.argmax())]!r} is none. "
            "Correct it, or leave the column out with exclude=[...]."
        )
    return (
        dates.dt.as_unit("us").astype("int64").to_numpy(np.float64) / DAY
    )  # the year 9999 overflows in nanoseconds


def arrow_days(array: Any) -> NDArray[np.float64]:
    """The days of Arrow's dates, timestamps (since 1970) or durations; NaN where missing."""
    pa = load_table_package("pyarrow")
    if pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    per_day = {"s": 86_400, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}[array.type.unit]
    counts = array.cast(pa.int64()).cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return np.asarray(counts) / per_day
