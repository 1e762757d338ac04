"""`FeatureEncoder`: how one column becomes features, learned from a first table.

    encoder = FeatureEncoder.fit("city", column, is_categorical=False, missing="mean")
    encoder.names                       # ("city=Bern", "city=Oslo")
    encoder.transform(column, "mean")   # an `EncodedColumn`: values [N, 2], and what was done to them

Features are float32: numbers as they are, dates as days since 1970, sentences as counts of their words,
everything else one-hot. A missing number becomes the mean of its column, a missing category or sentence a row
of zeros, and a further feature marks these rows; `missing="error"` refuses them. Of many categories the
frequent ones have a feature each and all others share one, which is also that of categories that come later.
Words that come later are not counted.
"""

from __future__ import annotations

import logging
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from polynsd.data.graph import Features
from polynsd.data.tables.dates import find_odd_date
from polynsd.data.tables.table import MISSING, Column, is_number_text, recode
from polynsd.data.validation import finite_float32
from polynsd.errors import ConfigError, DataError

logger = logging.getLogger("polynsd")

KEPT = 50  # categories that have a feature each, however rare they are
MOST = 1000  # features of a column at most
FREQUENT = 3  # rows that a word, or a category of many, needs for a feature of its own
MIN_ROWS = 20  # from here on, text that is different in more than half of the rows is no category
WORDS_OF_TEXT = 3  # words that half of such values have at least, if they are sentences
WORDS_PER_CATEGORY = 4  # a text may become as many times more features than categories do
WORDS_PER_ROW = 50  # a guess, for the memory that counts of words take
FEW = 16  # categories that are encoded densely
SPARSE_SIZE, SPARSE_SHARE = 2**16, 0.25  # features so many and so seldom other than zero are stored sparsely
MOSTLY_APART = 0.9  # share of different numbers that must stay different in single precision
UNSEEN = -2
UNSEEN_RULES = ("error", "ignore")
OTHER = "(other)"
WORD = re.compile(r"\w{2,}")
FOREIGN_NUMBER = re.compile(r"[+-]?\d*,\d+|[+-]?\d+([.,]\d+)?\s*%|[+-]?\d{1,3}(\.\d{3})+(,\d+)?")  # 0,5 or 5%


class UselessColumnError(DataError):
    """A column from which no feature can be made; it may be left out."""


@dataclass(frozen=True)
class FeatureEncoder:
    """How a column becomes features, learned from the first table.

    Args:
        column: its name.
        categories: their names in the order of their features; None for numbers, dates and sentences.
        mean: of the numbers, which replaces missing ones.
        marks_missing: whether a last feature marks the missing values.
        pools_others: whether a feature after the categories stands for all others.
        date_format: in which text is a date, see `dates`; None if it is none.
        words: of sentences, in the order of their features; None for everything else.
    """

    column: str
    categories: tuple[str, ...] | None = None
    mean: float = 0.0
    marks_missing: bool = False
    pools_others: bool = False
    date_format: str | None = None
    words: tuple[str, ...] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the k features."""
        names = [self.column]
        if self.categories is not None:
            others = (OTHER,) if self.pools_others else ()
            names = [f"{self.column}={category}" for category in (*self.categories, *others)]
        elif self.words is not None:
            names = [f"{self.column}: {word}" for word in self.words]
        return (*names, f"{self.column} is missing") if self.marks_missing else tuple(names)

    def memory(self, num_rows: int) -> int:
        """Bytes of the features of so many rows, and of a copy that joins them to others."""
        width = 1 if self.categories is None else len(self.categories) + self.pools_others
        per_row = 4 * width if width <= FEW else 8  # sparse: the number of the feature, and 1
        if self.words is not None:
            per_row = 8 * min(len(self.words), WORDS_PER_ROW)
        return 2 * num_rows * (per_row + 4 * self.marks_missing)

    @classmethod
    def fit(
        cls, name: str, column: Column, is_categorical: bool, missing: str, most: int = MOST
    ) -> FeatureEncoder:
        """Learns categories, mean and gaps; raises if the column cannot be features.

        Args:
            name: of the column.
            column: its values.
            is_categorical: encode it one-hot, also if it holds numbers or text that hardly repeats.
            missing: `error` or `mean`.
            most: features that it may become.
        """
        date_format = None if is_categorical else column.date_format
        numbers = None if is_categorical else column.read_numbers(date_format)
        if numbers is not None:
            is_missing = np.isnan(numbers)
            mean = 0.0 if is_missing.all() else float(numbers[~is_missing].mean())
            encoder = cls(name, None, mean, bool(is_missing.any()), date_format=date_format)
            _warn_of_rounding(column, numbers[~is_missing])
        else:
            codes, categories = column.categories
            is_missing = codes == MISSING
            present, has_gaps = codes[~is_missing], bool(is_missing.any())
            words = () if is_categorical else _choose_words(present, categories, WORDS_PER_CATEGORY * most)
            if words:
                encoder = cls(name, marks_missing=has_gaps, words=words)
            else:
                kept = _choose_categories(column, present, categories, is_categorical, most)
                encoder = cls(name, kept, 0.0, has_gaps, len(kept) < len(categories))
        _check_gaps(column, is_missing, missing)
        if len(is_missing) and is_missing.all():
            raise UselessColumnError(
                f"{column.origin}: all values are missing. Leave it out with exclude=[...]."
            )
        return encoder

    def transform(self, column: Column, missing: str, unseen: str = "error") -> EncodedColumn:
        """The features of a column.

        Args:
            column: of this table or another one.
            missing: `error`, or `mean` to fill gaps.
            unseen: `error`, or `ignore` for a row of zeros where a category is new.
        """
        num_unseen = num_pooled = 0
        if self.categories is not None:
            codes, num_unseen = self._category_codes(column, unseen)
            is_missing = codes == MISSING
            values = _one_hot(codes, len(self.categories) + self.pools_others)
            if self.pools_others:
                num_pooled = len(set(column.categories[1]) - set(self.categories))
        elif self.words is not None:
            is_missing = column.categories[0] == MISSING
            values = _count_words(column, self.words)
        else:
            numbers = column.read_numbers(self.date_format)
            if numbers is None:
                raise DataError(
                    f"{column.origin}: the model was trained on numbers here; some values are none. "
                    "Correct them."
                )
            is_missing = np.isnan(numbers)
            remedy = "Correct them, or leave the column out with exclude=[...]."
            filled = np.where(is_missing, self.mean, numbers)
            values = finite_float32(filled, column.origin, remedy=remedy)[:, None]
        _check_gaps(column, is_missing, missing)
        if self.marks_missing:
            values = join_features([values, is_missing.astype(np.float32)[:, None]])
        is_date = column.is_date or self.date_format is not None
        return EncodedColumn(self, values, int(is_missing.sum()), num_unseen, num_pooled, is_date)

    def _category_codes(self, column: Column, unseen: str) -> tuple[NDArray[np.int64], int]:
        """The features of the values, MISSING or UNSEEN elsewhere; and how many rows hold what is new.

        Where others are pooled nobody knows which of them are new: none is counted.
        """
        codes, names = column.categories
        position = {name: i for i, name in enumerate(self.categories or ())}
        other = len(position) if self.pools_others else UNSEEN
        new = [name for name in names if name not in position]
        if new and unseen != "ignore" and not self.pools_others:
            raise DataError(
                f"{column.origin}: {len(new)} categories were not there in training, e.g. {new[0]!r}. "
                "Correct them, train anew, or ask for unseen='ignore' (a row of zeros)."
            )
        result = recode(codes, [position.get(name, other) for name in names])
        return result, int((result == UNSEEN).sum())


def _warn_of_rounding(column: Column, numbers: NDArray[np.float64]) -> None:
    """Says where large numbers, e.g. seconds since 1970, differ by less than single precision holds."""
    distinct = np.unique(numbers)
    with np.errstate(over="ignore"):  # which is an error of its own
        apart = np.unique(distinct.astype(np.float32)).size
    if apart < MOSTLY_APART * distinct.size:
        logger.warning(
            "%s: of %d different numbers single precision tells %d apart; subtract a constant first if small "
            "differences count.",
            column.origin,
            distinct.size,
            apart,
        )


@dataclass(frozen=True, eq=False)
class EncodedColumn:
    """The features `[N, k]` of a column, and what was done to it."""

    encoder: FeatureEncoder
    values: Features
    filled: int = 0  # missing values
    unseen: int = 0  # rows whose category the encoder does not know
    pooled: int = 0  # categories that share one feature
    is_date: bool = False


def _one_hot(codes: NDArray[np.int64], width: int) -> Features:
    """`[N, width]`, a row of zeros where the code is negative."""
    if width <= FEW:
        return (codes[:, None] == np.arange(width)).astype(np.float32)
    is_known = codes >= 0
    ends = np.concatenate([[0], np.cumsum(is_known)])
    entries = (np.ones(int(ends[-1]), np.float32), codes[is_known].astype(np.int32), ends.astype(np.int32))
    return sparse.csr_matrix(entries, shape=(len(codes), width))


def _count_words(column: Column, words: Sequence[str]) -> Features:
    """`[N, words]` how often each is in the text of a row; a row of zeros where the text is missing."""
    codes, texts = column.categories
    position = {word: i for i, word in enumerate(words)}
    ends, numbers, values = array("q", [0]), array("i"), array("f")
    for text in texts:  # into arrays at once: objects of Python take far more memory
        counts = Counter(position[word] for word in _split_words(text) if word in position)
        numbers.extend(counts.keys())
        values.extend(counts.values())
        ends.append(len(numbers))
    entries = tuple(np.asarray(part) for part in (values, numbers, ends))
    matrix = sparse.csr_matrix(entries, shape=(len(texts), len(words)), dtype=np.float32)
    empty = sparse.csr_matrix((1, len(words)), dtype=np.float32)
    return sparse.csr_matrix(sparse.vstack([matrix, empty], format="csr")[codes])  # row −1 is the empty one


def _split_words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def join_features(parts: Sequence[Features]) -> Features:
    """The columns side by side, sparse if that is worth it."""
    size = parts[0].shape[0] * sum(part.shape[1] for part in parts)
    if size >= SPARSE_SIZE and any(map(sparse.issparse, parts)):
        stored = sum(part.nnz if sparse.issparse(part) else np.count_nonzero(part) for part in parts)
        if stored <= SPARSE_SHARE * size:
            return parts[0] if len(parts) == 1 else sparse.csr_matrix(sparse.hstack(parts, format="csr"))
    return np.concatenate([part.toarray() if sparse.issparse(part) else part for part in parts], axis=1)


def _check_gaps(column: Column, is_missing: NDArray[np.bool_], missing: str) -> None:
    if is_missing.any() and missing != "mean":
        raise DataError(
            f"{column.origin}: {int(is_missing.sum())} of {len(column)} values are missing. Fill them in, "
            "leave the column out with exclude=[...], or ask for missing='mean' (the mean and an indicator "
            "column)."
        )


def _hardly_repeats(codes: NDArray[np.int64], categories: Sequence[str]) -> bool:
    return len(codes) >= MIN_ROWS and 2 * len(categories) > len(codes)


def _choose_words(codes: NDArray[np.int64], texts: Sequence[str], most: int) -> tuple[str, ...]:
    """The words on the most rows, if these are sentences that hardly repeat; none otherwise."""
    if not _hardly_repeats(codes, texts):
        return ()
    if np.median([len(text.split()) for text in texts]) < WORDS_OF_TEXT:
        return ()
    rows = Counter[str]()
    for text, count in zip(texts, np.bincount(codes, minlength=len(texts)).tolist(), strict=True):
        rows.update(dict.fromkeys(_split_words(text), count))
    frequent = [word for word, count in rows.most_common(most) if count >= FREQUENT]
    return tuple(sorted(frequent))


def _choose_categories(
    column: Column, codes: NDArray[np.int64], categories: tuple[str, ...], is_categorical: bool, most: int
) -> tuple[str, ...]:
    """The categories that have a feature of their own: all if they are few, else the frequent ones."""
    counts = np.bincount(codes, minlength=len(categories))
    if not is_categorical:
        _check_words(column, categories)
        _check_dates(column, categories, counts)
    if len(categories) <= min(KEPT, most) and (is_categorical or not _hardly_repeats(codes, categories)):
        return categories
    by_count = np.argsort(-counts, kind="stable")[: most - 1]
    frequent = np.sort(by_count[counts[by_count] >= FREQUENT])
    if not frequent.size and not is_categorical:
        raise UselessColumnError(
            f"{column.origin}: {len(categories)} of {len(codes)} values are different, e.g. "
            f"{categories[0]!r}, so they are no categories. Leave it out with exclude=[...], or name it in "
            "categorical=[...]."
        )
    return tuple(categories[i] for i in (frequent if frequent.size else np.sort(by_count)))


def _check_words(column: Column, categories: tuple[str, ...]) -> None:
    """Raises for text that was probably meant as numbers."""
    number = next(filter(is_number_text, categories), None)
    word = next((name for name in categories if not is_number_text(name)), None)
    foreign = next(filter(FOREIGN_NUMBER.fullmatch, categories), None)
    if foreign is not None:
        raise DataError(
            f"{column.origin}: text becomes one feature per category, but {foreign!r} looks like a number "
            "written in another way. Convert it to numbers (decimal=',' for 0,5), leave it out with "
            "exclude=[...], or name it in categorical=[...] if these are categories."
        )
    if column.is_text and number is not None and word is not None:
        raise ConfigError(
            f"{column.origin} mixes numbers and words (e.g. {number!r} and {word!r}). Correct the values, "
            "leave it out with exclude=[...], or name it in categorical=[...] if they are categories."
        )


def _check_dates(column: Column, categories: tuple[str, ...], counts: NDArray[np.int64]) -> None:
    """Raises for text that is a date in most rows, but not in all."""
    if odd := find_odd_date(categories, counts):
        raise DataError(
            f"{column.origin}: most values are dates such as {odd[0]!r}, but {odd[1]!r} is not written so. "
            "Correct it, leave the column out with exclude=[...], or name it in categorical=[...] if these "
            "are categories."
        )
