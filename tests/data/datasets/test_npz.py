"""Damaged and hostile archives: a sound graph or one `DataError` comes out, and nothing else happens."""

import io
import os
import pickle
import tracemalloc
import zipfile
from copy import copy

import numpy as np
import pytest
from limits import cases
from scipy import sparse

from polynsd.data import Graph, Masks
from polynsd.data.datasets.archive import load_graph, save_graph
from polynsd.data.datasets.npz import NpzReader
from polynsd.data.validation import check_arrays
from polynsd.errors import DataError
from polynsd.memory import limit_memory

ROUNDS = 800
MEMORY = 8 * 2**20
EDGES = np.array([[0, 0, 1, 2, 4], [1, 3, 2, 5, 6]])
EDGE_BYTES = EDGES.tobytes()


def base_graphs():
    """Small graphs that use every key of the format."""
    part = np.arange(21).reshape(3, 7) % 4
    masks = Masks(part == 0, part == 1, part == 2)
    x = (np.arange(21, dtype=np.float32) % 5).reshape(7, 3)
    names = {"class_names": ("a", "b"), "node_ids": np.array(list("pqrstuv"))}
    weights = {"edge_weight": np.ones(5, np.float32), "edge_attr": np.ones((5, 2), np.float32)}
    labels = np.array([0, 1, 1, -1, 0, 1, 0])
    extras = {"words": np.array(["one", "two"]), "unit": np.array(2.5)}
    return [
        Graph("dense", EDGES, 7, x, labels, {"default": masks, "public": masks}, **names),
        Graph("sparse", EDGES, 7, sparse.csr_matrix(x), labels, {"default": masks}, extras=extras),
        Graph("targets", EDGES, 7, x, labels.astype(np.float32), **weights, feature_names=("f", "g", "h")),
        Graph("bare", EDGES, 7),
    ]


def npy(descr="'<i8'", shape="(2, 5)", order="False", payload=EDGE_BYTES, version=b"\x01\x00", length=None):
    """The bytes of an array whose header says whatever is wanted."""
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    width = 2 if version == b"\x01\x00" else 4
    size = len(header) if length is None else length
    return b"\x93NUMPY" + version + size.to_bytes(width, "little") + header + payload


def array_bytes(array):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=True)
    return stream.getvalue()


def zipped(members, method=zipfile.ZIP_DEFLATED):
    """A zip file of (name, bytes) pairs, with correct checksums."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return stream.getvalue()


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


class Payload:
    """Makes a folder when unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


class Mutator:
    """One method per kind of damage; each makes the bytes of a new file."""

    def __init__(self, bases, marker, seed=0):
        self.rng = np.random.default_rng(seed)
        self.bases = bases
        self.payload = np.array([Payload(marker)], dtype=object)
        self.kinds = [
            self.flip,
            self.cut,
            self.splice,
            self.header,
            self.values,
            self.dtype,
            self.pickled,
            self.directory,
        ]

    def pick(self, choices):
        return choices[self.rng.integers(len(choices))]

    def base(self):
        return self.pick(self.bases)

    def place(self, data):
        return int(self.rng.integers(len(data)))

    def member(self, change):
        """A base in which one member's bytes are `change(bytes)`, all checksums right."""
        members = members_of(self.base())
        index = self.place(members)
        members[index] = (members[index][0], change(members[index][1]))
        return zipped(members, zipfile.ZIP_STORED)

    def flip(self):
        data = bytearray(self.base())
        for _ in range(self.rng.integers(1, 9)):
            data[self.place(data)] ^= 1 << int(self.rng.integers(8))
        return bytes(data)

    def cut(self):
        data = self.base()
        start, stop = sorted((self.place(data), self.place(data)))
        return self.pick([data[:stop], data[start:], data[:start] + data[stop:], data + data[start:stop]])

    def splice(self):
        if self.rng.random() < 0.3:
            first, second = self.base(), self.base()
            return first[: self.place(first)] + second[self.place(second) :]
        pool = members_of(self.base()) + members_of(self.base())
        chosen = self.rng.permutation(len(pool))[: self.rng.integers(1, len(pool))]
        members = [pool[index] for index in chosen]
        if self.rng.random() < 0.3:
            members[0] = (self.pick(["x", "../x.npy", "/x.npy", "x\\y.npy", "é.npy", "d/"]), members[0][1])
        unique = dict(members).items() if self.rng.random() < 0.8 else members
        return zipped(unique, zipfile.ZIP_STORED)

    def header(self):
        descr = self.pick(
            ["'<i8'", "'<f4'", "'|O'", "'>i8'", "'<U0'", "'<U999999'", "[('a', '<i8')]", "'<M8[s]'", "1"]
        )
        huge = int(10 ** self.rng.uniform(0, 22))
        shape = self.pick(
            [f"({huge},)", f"(0, {huge})", f"({huge}, {huge})", "(-1,)", "()", "(2, 5)", "(1,) * 9", "7"]
        )
        length = self.pick([None, None, None, 0, 65535, 3])
        version = self.pick([b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"])
        order = self.pick(["False", "False", "True", "None"])
        return self.member(lambda _: npy(descr, shape, order, version=version, length=length))

    def values(self):
        def change(data):
            start = data.index(b"\n") + 1
            values = bytearray(data[start:])
            for _ in range(self.rng.integers(1, 4) if values else 0):
                index = self.place(values)
                junk = self.pick([b"\xff" * 8, b"\0\0\xc0\x7f", b"\x7f", b"\0" * 8, self.rng.bytes(4)])
                values[index : index + len(junk)] = junk[: len(values) - index]
            return data[:start] + bytes(values)

        return self.member(change)

    def dtype(self):
        def change(data):
            array = np.lib.format.read_array(io.BytesIO(data))
            with np.errstate(all="ignore"):
                if array.dtype.kind != "U":
                    array = array.astype(self.pick(["i4", "i8", "f4", "f8", "?", "u8", ">i4", "U3", "c8"]))
            return array_bytes(
                self.pick(
                    [array, array.T, array[..., None], array[:0] if array.ndim else array, array.ravel()]
                )
            )

        return self.member(change)

    def pickled(self):
        if self.rng.random() < 0.2:
            return pickle.dumps(self.payload)
        return self.member(lambda _: self.pick([array_bytes(self.payload), pickle.dumps(self.payload)]))

    def directory(self):
        """Damage to the central directory: flags, methods, sizes, offsets and counts."""
        data = bytearray(self.base())
        start = data.index(b"PK\x01\x02")
        for _ in range(self.rng.integers(1, 4)):
            index = start + int(self.rng.integers(len(data) - start))
            data[index : index + 4] = self.pick(
                [b"\xff\xff\xff\x7f", b"\x01", b"\x0e", b"\0\0\0\0", self.rng.bytes(2)]
            )
        return bytes(data)


def outcome(path):
    """Loads the file; whatever is not a sound graph or a `DataError` naming the file escapes."""
    try:
        graph = load_graph(path, extras=True)
    except DataError as error:
        message = str(error)
    else:
        check_arrays(graph)
        return "loaded"
    assert message.startswith(f"{path}: ")
    return "refused"


def fuzz(mutator, rounds, folder):
    """The names of the kinds of damage that loaded, and of those that were refused."""
    results = {"loaded": set(), "refused": set()}
    path = folder / "mutated.npz"
    for number in cases(rounds):
        kind = mutator.kinds[number % len(mutator.kinds)]
        path.unlink(missing_ok=True)  # some file systems flush when a file is overwritten
        path.write_bytes(kind())
        results[outcome(path)].add(kind.__name__)
    return results["loaded"], results["refused"]


@pytest.fixture
def mutator(tmp_path):
    paths = [save_graph(tmp_path / f"{graph.name}.npz", graph) for graph in base_graphs()]
    return Mutator([path.read_bytes() for path in paths], tmp_path / "marker")


@pytest.mark.fuzz("graph archives")
@pytest.mark.usefixtures("no_tracer")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_mutated_archives_load_soundly_or_are_refused(mutator, tmp_path):
    loaded, refused = fuzz(mutator, ROUNDS, tmp_path)
    assert {"flip", "cut", "splice", "values", "dtype"} <= loaded
    assert refused == {kind.__name__ for kind in mutator.kinds}
    assert "pickled" not in loaded
    assert not (tmp_path / "marker").exists()


def test_lies_about_sizes_cost_no_memory(mutator, tmp_path):
    mutator.kinds = [mutator.header, mutator.directory]
    tracemalloc.start()
    fuzz(mutator, 200, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY


def one_member(data, name="edge_index.npy"):
    return zipped([(name, data)])


def patched(offset, value):
    """A sound archive with other bytes at an offset of its first directory entry."""
    data = bytearray(one_member(npy()))
    start = data.index(b"PK\x01\x02") + offset
    data[start : start + len(value)] = value
    return bytes(data)


def overlapping():
    """Two names for the bytes of one member."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("edge_index.npy", npy(shape="(2, 500)", payload=bytes(8000)))
        twin = copy(archive.filelist[0])
        twin.filename = "y.npy"
        archive.filelist.append(twin)
    return stream.getvalue()


def misspelt():
    """A name that says it is UTF-8 and is not."""
    return one_member(npy(), "é.npy").replace("é".encode(), b"\xff\xff")


HOSTILE = [
    (b"", "intact .npz file; reading failed with BadZipFile"),
    (one_member(npy())[:-30], "reading failed with BadZipFile"),
    (zipped([("edge_index.npy", npy())], zipfile.ZIP_STORED).replace(b"<i8", b"<u8"), "Bad CRC-32"),
    (one_member(b"text"), r"edge_index: expected a NumPy array .* begins with b'text'"),
    (one_member(npy(version=b"\x04\x00")), "format 1.0 to 3.0"),
    (one_member(npy(descr="'|O'")), "never Python objects; got dtype '|O'"),
    (one_member(npy(descr="'>i8'")), "little-endian .* got dtype '>i8'"),
    (one_member(npy(descr="[('a', '<i8')]")), "never Python objects; got dtype .*'a'"),
    (one_member(npy(descr="()")), "reading it failed with"),
    (one_member(npy(shape="(-2, 5)")), r"must not be negative; got the shape \[-2, 5\]"),
    (one_member(npy(shape="(1,) * 9")), "reading it failed with ValueError"),
    (one_member(npy(length=60_000)), "header of at most 4096 bytes"),
    (one_member(npy(version=b"\x02\x00", length=2**31, payload=bytes(5000))), "header of at most 4096 bytes"),
    (one_member(npy(shape="(2, 50)")), r"declares 800 bytes \(int64 of shape \[2, 50\]\), .* holds 80"),
    (one_member(npy(shape=f"(0, {2**62})", payload=b"")), "which no array can have"),
    (one_member(npy(descr="'|b1'", shape="(2,)", payload=b"\1\2")), "stored as 0 or 1; got 2"),
    (one_member(npy(descr="'<U1'", shape="(1,)", payload=b"\xff" * 4)), "no Unicode character"),
    (one_member(npy(), "../edge_index.npy"), r"named <array>.npy .* got '../edge_index.npy'"),
    (patched(8, b"\x01"), "not encrypted; 'edge_index' has method 8 and flags 0x1"),
    (patched(10, b"\x0e"), "stored or deflated, .* has method 14"),
    (patched(24, b"\xff\xff\xff\x7f"), "declares 2147483647 bytes from .* zip bomb"),
    (overlapping(), "so they overlap"),
    (misspelt(), "reading failed with UnicodeDecodeError"),
]


@pytest.mark.parametrize(("data", "fragment"), HOSTILE)
def test_hostile_files_are_refused_by_name(data, fragment, tmp_path):
    path = tmp_path / "hostile.npz"
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"hostile\.npz: .*({fragment})"):
        load_graph(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_duplicate_names_missing_files_and_pipes(tmp_path):
    path = tmp_path / "a.npz"
    path.write_bytes(zipped([("y.npy", npy()), ("y.npy", npy())]))
    with pytest.raises(DataError, match="'y' occurs again"):
        NpzReader(path)
    os.mkfifo(tmp_path / "pipe.npz")
    for name in ("none.npz", "pipe.npz", "."):
        with pytest.raises(DataError, match="no such file"):
            NpzReader(tmp_path / name)


def test_a_bomb_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, edge_index=EDGES, y=np.zeros(2**22, np.int64))
    tracemalloc.start()
    with limit_memory("1MiB"), pytest.raises(DataError, match=r"would take about 33\.6 MB .* 1\.05 MB are"):
        load_graph(path)
    assert tracemalloc.get_traced_memory()[1] < MEMORY
    tracemalloc.stop()
    assert load_graph(path).num_nodes == 2**22


def test_too_little_memory_is_told(tmp_path, monkeypatch):
    def read_array(*_, **__):
        raise MemoryError

    np.savez(tmp_path / "a.npz", edge_index=EDGES)
    monkeypatch.setattr(np.lib.format, "read_array", read_array)
    with pytest.raises(DataError, match=r"edge_index: needs \d+ bytes, more memory than there is"):
        load_graph(tmp_path / "a.npz")


X = {"x_indptr": np.array([0, 1]), "x_indices": np.array([0]), "x_data": np.ones(1, np.float32)}
MASK = np.zeros((1, 7), bool)
INCOMPLETE = [
    ({"edge_index": None, "y": np.zeros(7, np.int64)}, "there is no edge_index among y"),
    (X, "there is no x_shape among edge_index, x_indptr"),
    (X | {"x_shape": np.array([1, -1])}, r"not be negative; got \[1, -1\]"),
    (X | {"x_shape": np.array([2**40, 1])}, r"x_indptr must be int32 or int64 of shape \[1099511627777\]"),
    ({"x": np.ones((7, 1), np.float32), "x_data": np.ones(1)}, "dense or sparse; got x and x_data"),
    ({"train_mask": MASK, "val_mask": MASK}, "there is no test_mask"),
    ({"public_train_mask": MASK[0]}, "there is no public_val_mask, public_test_mask"),
    (
        {"y": np.zeros(7, np.int64), "node_ids": np.arange(8)},
        "agree on the number of nodes; got y 7, node_ids 8",
    ),
    ({"num_nodes": np.array([7])}, r"num_nodes must be int32 or int64 of shape \[\]"),
    ({"y": np.array(1)}, r"y must be int64 or float32 of shape \[7\]; got int64 of shape \[\]"),
    ({"class_names": np.arange(2)}, "class_names must be a unicode array"),
    ({"unlabelled": np.array([0, 7])}, r"unlabelled must be node numbers below 7; 1 of 2 .* at 1 \(7\)"),
    ({"unlabelled": np.zeros(7, bool)}, "unlabelled must be int32 or int64"),
    ({"edge_index": EDGES.astype(np.float32)}, "edge_index must be int32 or int64"),
    ({"edge_index": EDGES + 2**62}, "no array has a row per node to confirm"),
    ({"num_nodes": np.array(-1)}, "a graph has 0 to 4294967296 nodes"),
]


@pytest.mark.parametrize(("changes", "fragment"), INCOMPLETE)
def test_arrays_that_do_not_make_a_graph(changes, fragment, tmp_path):
    arrays = {"edge_index": EDGES} | changes
    np.savez(tmp_path / "a.npz", **{key: array for key, array in arrays.items() if array is not None})
    with pytest.raises(DataError, match=rf"a\.npz: .*{fragment}"):
        load_graph(tmp_path / "a.npz")
