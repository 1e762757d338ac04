"""Downloads that were damaged or forged on their way give a sound graph or a `DataError`, and run nothing."""

import gzip
import pickle
import random
from contextlib import suppress

import numpy as np
import pytest
from limits import cases
from scipy import sparse
from scipy.io import loadmat, savemat
from test_sources import EDGES, LABELS, MASKS, PICKLED, WRITERS, Evil, X, graph_of, write_planetoid

from polynsd.data.datasets.matlab import read_matlab
from polynsd.data.datasets.pickles import read_pickle
from polynsd.errors import DataError

GZIP = b"\x1f\x8b"
INSTRUCTIONS = [  # of pickles: names, calls, states, copies, places in the memo
    *(b"cos\nsystem\n", b"cbuiltins\neval\n", b"\x8c\x02os\x8c\x06system\x93", b"ios\nsystem\n", b"P1\n"),
    *(b"cnumpy\ndtype\n", b"cnumpy.core.multiarray\n_reconstruct\n", b"c_codecs\nencode\n", b"\x82\x01"),
    *(bytes([code]) for code in b"Rb\x81\x92(tld}]012sue."),
    *(b"q\x00", b"h\x00", b"r\xff\xff\xff\x7f", b"X\xff\xff\xff\x7f", b"B\xff\xff\xff\xff"),
    *(b"K\x01", b"J\xff\xff\xff\xff", b"I00\n", b"L1L\n", b"\x8e" + b"\xff" * 8, b"\x95" + b"\xff" * 8),
]


def damaged(data, rng):
    """A file with a few bits, bytes or instructions of it changed; a compressed one also within."""
    if data.startswith(GZIP) and rng.random() < 0.8:
        return gzip.compress(damaged(gzip.decompress(data), rng), 1)
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        place, size = rng.randrange(len(data) + 1), rng.randrange(9)
        match rng.randrange(5):
            case 0:
                data[place : place + 1] = bytes(byte ^ 1 << size % 8 for byte in data[place : place + 1])
            case 1:
                data[place : place + size] = rng.randbytes(size)
            case 2:
                data[place:place] = rng.choice(INSTRUCTIONS)
            case 3:
                data[place : place + size] = b""
            case 4:
                data[place:] = data[place:] if rng.random() < 0.7 else b""
    return bytes(data)


@pytest.mark.fuzz("pickles")
@pytest.mark.usefixtures("no_tracer")
def test_damaged_pickles_are_read_or_refused(tmp_path):
    rng, path, ran = random.Random(0), tmp_path / "file", tmp_path / "it ran"
    whole = [pickle.dumps(value, protocol) for value in (*PICKLED, Evil(ran)) for protocol in (0, 2, 4)]
    read = 0
    for _ in cases(400):
        path.write_bytes(damaged(rng.choice(whole), rng))
        with suppress(DataError):
            read_pickle(path, object)
            read += 1
    assert read
    assert not ran.exists()


def published(reader, folder):
    folder.mkdir()
    if reader != "planetoid":
        return WRITERS[reader][0](folder)
    public = np.arange(len(LABELS)) // 3
    return write_planetoid(folder, EDGES, X, LABELS, MASKS, [public < 1, public == 1, public > 3])


@pytest.mark.fuzz("published files")
@pytest.mark.usefixtures("no_tracer")
def test_damaged_downloads_are_read_or_refused(tmp_path):
    rng = random.Random(0)
    kinds = {reader: published(reader, tmp_path / reader) for reader in (*WRITERS, "planetoid")}
    read = set()
    for _ in cases(200):
        reader = rng.choice(list(kinds))
        path = rng.choice(list(kinds[reader].values()))
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, rng))
        with suppress(DataError):
            graph_of(reader, kinds[reader])
            read.add(reader)
        path.write_bytes(whole)
    assert len(read) > 3


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "i4", "u1", "?"])
def test_matlab_files_hold_what_scipy_finds_in_them(dtype, compress, tmp_path):
    matrix = sparse.random(7, 5, 0.4, format="csc", random_state=0).astype(dtype)
    table = (100 * np.random.default_rng(0).normal(size=(3, 4))).astype(dtype)
    savemat(tmp_path / "m.mat", {"A": matrix, "text": "words", "b": table}, do_compression=compress)
    expected, found = loadmat(tmp_path / "m.mat"), read_matlab(tmp_path / "m.mat", ("A", "b"))
    assert np.array_equal(found["b"], expected["b"])
    assert np.array_equal(found["A"].toarray(), expected["A"].toarray())
    with pytest.raises(DataError, match="there is no C in it"):
        read_matlab(tmp_path / "m.mat", ("C",))
