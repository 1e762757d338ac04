"""Safetensors files: exact, and safe to read whoever wrote them."""

import json
import pickle
import zipfile

import pytest
import torch
from fuzzing import fuzz_cases
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save

from polynsd.errors import ConfigError, DataError
from polynsd.runs import read_tensors, write_tensors
from polynsd.runs.tensors import pack_tensors, unpack_tensors

DTYPES = (
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
MAX_HEADER = 100_000_000  # bytes, the limit of the safetensors library
F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def file(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def refused(tmp_path, content):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"model\.safetensors") as refusal:
        read_tensors(path)
    return str(refusal.value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)], ids=str)
def test_tensors_come_back_to_the_bit(tmp_path, dtype, shape):
    tensor = torch.arange(24)[: torch.Size(shape).numel()].reshape(shape).to(dtype)
    write_tensors(tmp_path / "t.safetensors", {"a": tensor, "b": tensor}, {"epoch": 3})
    tensors, about = read_tensors(tmp_path / "t.safetensors")
    assert about == {"epoch": 3}
    assert list(tensors) == ["a", "b"]
    assert all(back.dtype == dtype and torch.equal(back, tensor) for back in tensors.values())


def test_views_and_gradients_are_stored_as_what_they_show(tmp_path):
    base = torch.arange(6.0, requires_grad=True)
    views = {"whole": base, "part": base[2:4], "turned": base.reshape(2, 3).T, "spread": base[:1].expand(4)}
    write_tensors(tmp_path / "t.safetensors", views)
    tensors, _ = read_tensors(tmp_path / "t.safetensors")
    assert all(torch.equal(tensors[name], view) for name, view in views.items())


def test_equal_tensors_make_equal_bytes():
    a, b = torch.ones(2), torch.zeros(3)
    assert pack_tensors({"a": a, "b": b}, {"x": 1, "y": 2}) == pack_tensors(
        {"b": b, "a": a}, {"y": 2, "x": 1}
    )


def test_facts_must_be_plain():
    with pytest.raises(ConfigError, match="plain data"):
        pack_tensors({}, {"x": torch.ones(1)})


def test_files_of_others_need_no_checksum(tmp_path):
    path = tmp_path / "theirs.safetensors"
    path.write_bytes(save({"w": torch.ones(2)}, {"format": "pt"}))
    tensors, about = read_tensors(path)
    assert torch.equal(tensors["w"], torch.ones(2))
    assert about == {}


class Bomb:
    """Leaves a trace if it is ever unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return open, (str(self.trace), "w")


@pytest.mark.parametrize("save_bomb", ["torch", "torch-legacy", *range(6)])
def test_pickles_are_refused_and_never_run(tmp_path, save_bomb):
    path, trace = tmp_path / "model.safetensors", tmp_path / "trace"
    if isinstance(save_bomb, int):
        path.write_bytes(pickle.dumps(Bomb(trace), protocol=save_bomb))
    else:
        torch.save(Bomb(trace), path, _use_new_zipfile_serialization=save_bomb == "torch")
    message = refused(tmp_path, path.read_bytes())
    assert not trace.exists()
    if save_bomb not in (0, 1):
        assert "can execute code" in message
        assert "safetensors.torch.save_file" in message


def test_a_zip_file_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "z", "w") as archive:
        archive.writestr("data.pkl", b"x" * 100)
    assert "can execute code" in refused(tmp_path, (tmp_path / "z").read_bytes())


def test_a_header_as_long_as_a_pickle_begins_is_fine(tmp_path):
    """A header of 0x280 bytes begins as a pickle of protocol 2 does."""
    text = json.dumps({"w": F32}).encode()
    (tmp_path / "t").write_bytes(file(text.ljust(0x280), bytes(8)))
    assert torch.equal(read_tensors(tmp_path / "t")[0]["w"], torch.zeros(2))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "0 bytes"),
        (b"\x01", "1 bytes"),
        (file({"w": F32}, bytes(8), length=2**63), "header too large"),
        (file({"w": F32}, bytes(8), length=MAX_HEADER + 1), "header too large"),
        (file({"w": F32}, bytes(8), length=1000), "header length"),
        (file(b"{" + b'"a":{' * 90_000), "recursion"),
        (file(b'{"a":' + b"[" * 90_000), "recursion"),
        (file(b'{"w":\xff}'), "UTF-8"),
        (file(b'{"w":NaN}'), "JSON"),
        (file(b'{"w":' + b"9" * 9000 + b"}"), "out of range"),
        (file({"w": 3}), "invalid type"),
        (file({"w": {**F32, "more": 1}}, bytes(8)), "unknown fields in the header: more"),
        (file({"w": {**F32, "dtype": "F33"}}, bytes(8)), "F33"),
        (file({"w": {**F32, "dtype": ["F32"]}}, bytes(8)), "invalid type"),
        (file({"w": {**F32, "shape": [-2]}}, bytes(8)), "-2"),
        (file({"w": {**F32, "shape": [2.0]}}, bytes(8)), "invalid type"),
        (file({"w": {**F32, "shape": [True, 2]}}, bytes(8)), "invalid type"),
        (file({"w": {**F32, "shape": [1] * 65}}, bytes(8)), "shape"),
        (file({"w": {**F32, "shape": [2**40, 2**40]}}, bytes(8)), "overflow"),
        (file({"w": {**F32, "shape": [2**64]}}, bytes(8)), "invalid type"),
        (file({"w": {**F32, "shape": [3]}}, bytes(8)), "shape"),
        (file({"w": {**F32, "data_offsets": [8, 0]}}, bytes(8)), "offset"),
        (file({"w": {**F32, "data_offsets": [0]}}, bytes(8)), "tuple of size 2"),
        (file({"w": {**F32, "data_offsets": [4, 12]}}, bytes(12)), "offset"),  # a hole
        (file({"w": F32, "v": F32}, bytes(8)), "offset"),  # they overlap
        (file({"w": F32}, bytes(7)), "not fully covered"),
        (file({"w": F32}, bytes(9)), "not fully covered"),
        (file({}, bytes(9)), "not fully covered"),
        (file(b'{"w":%s,"w":%s}' % ((json.dumps(F32).encode(),) * 2), bytes(8)), "occurs twice"),
        (file({"__metadata__": {"a": 1}}), "expected a string"),
        (file({"__metadata__": {"polynsd": "{"}}), "metadata cannot be read"),
        (file({"__metadata__": {"polynsd": "[]"}}), "metadata cannot be read"),
        (file({"__metadata__": {"polynsd": '{"about":{},"sha256":"0"}'}}), "checksum"),
    ],
)
def test_hostile_headers_are_refused(tmp_path, content, reason):
    assert reason in refused(tmp_path, content)


@pytest.mark.fuzz("tensor files")
@settings(max_examples=fuzz_cases(150))
@given(st.data())
def test_every_flipped_bit_is_noticed(data):
    """Where it hits the name of the seal, the file looks like one of others."""
    content = pack_tensors({"w": torch.arange(5.0), "n": torch.tensor(3)}, {"epoch": 1})
    place = data.draw(st.integers(0, 8 * len(content) - 1))
    flipped = bytearray(content)
    flipped[place // 8] ^= 1 << place % 8
    try:
        assert unpack_tensors(bytes(flipped), "t")[1] == {}
        assert b'"polynsd"' not in flipped
    except DataError:
        pass


@pytest.mark.fuzz("tensor files")
@settings(max_examples=fuzz_cases(100))
@given(st.binary(max_size=60), st.dictionaries(st.text(max_size=3), st.integers() | st.text() | st.none()))
def test_noise_is_refused_or_empty(noise, header):
    for content in (noise, file(header, noise), file({"w": header}, noise)):
        try:
            tensors, _ = unpack_tensors(content, "t")
        except DataError:
            continue
        assert not tensors
