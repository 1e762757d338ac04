"""Configuration files: what YAML 1.2 and JSON say, or an error with file, line and key; nothing else."""

import json
import math
import resource
import time
from contextlib import suppress

import pytest
from fuzzing import fuzz_cases
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polynsd import ConfigError, LayerConfig, ModelConfig, PolyNSDError
from polynsd.cli import main
from polynsd.config import load_config, to_dict
from polynsd.documents import MOST_BYTES, read_document, to_yaml, write_document
from polynsd.search import get_space
from polynsd.search.space import Space
from polynsd.training.configuration import Configuration, plain_configuration, read_configuration
from polynsd_paper.records import read_record

BEST = to_yaml(plain_configuration(Configuration())).encode()
SPACE = b"""\
model.layer.maps: [diagonal, orthogonal]
model.layer.degree: {low: 1, high: 8, log: true}
model.layer.fixed_channels: [[], [laplacian]]
model.layer.dropout: {low: 0.0, high: 0.8, step: 0.1}
training.learning_rate: {low: 1e-3, high: 5e-2, log: true}
"""
SEEDS = {
    "best.yaml": BEST,
    "best.json": json.dumps(plain_configuration(Configuration())).encode(),
    "space.yaml": SPACE,
}
READERS = {"best.yaml": read_configuration, "best.json": read_configuration, "space.yaml": get_space}
BOMB = b"a: &a [1,1,1,1,1,1,1,1,1]\n" + b"".join(
    b"%c: &%c [%s]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 9)) for c in range(ord("b"), ord("k"))
)
FRAGMENTS = (
    *(b"&a", b"*a", b"!!python/object:os.system", b"[", b"{", b"}", b": ", b"\n  ", b"- ", b"? ", b"'", b'"'),
    *(b"\xff", b"\xff\xfe", b"\0", b"9" * 5000, b"1e999", b".nan", b"-1", b"null", b"on", b"---\n", b"\t"),
    *(b"\xed\xa0\x80", b'"\\ud800"', b"[" * 5000, b"%YAML 9.9\n", b"<<: ", b"2147483648"),
)


def read(tmp_path, text, name="c.yaml"):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_document(tmp_path / name, "options")


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *(("1e-2", 0.01), ("1E5", 1e5), (".5", 0.5), ("5.", 5.0), ("-3", -3), ("+12", 12), ("012", 12)),
        *(("0o17", 15), ("0x1F", 31), ("true", True), ("~", None), ("", None), ("-.inf", -math.inf)),
        *(("on", "on"), ("no", "no"), ("12:30", "12:30"), ("1_000", "1_000"), ("2026-01-01", "2026-01-01")),
        *(("'1e-2'", "1e-2"), ('"true"', "true"), ("1e", "1e"), ("<<", "<<")),
    ],
)
def test_words_are_those_of_yaml_1_2(tmp_path, word, value):
    found = read(tmp_path, f"a: {word}").content["a"]
    assert (type(found), found) == (type(value), value)


words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
plain_data = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab1e-.:#", max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=fuzz_cases(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.dictionaries(st.sampled_from(["1e5", "on", "a b", "x"]), plain_data, max_size=3))
def test_what_is_written_is_read(tmp_path, data):
    for name in ("c.yaml", "c.json"):
        if name == "c.yaml" or "Infinity" not in json.dumps(data):
            write_document(tmp_path / name, data)
            assert read_document(tmp_path / name, "data").content == data


def test_a_shared_list_is_written_without_aliases(tmp_path):
    shared = [1, 2]
    assert "*" not in to_yaml({"a": shared, "b": shared})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: [1, 2\nc: 3", "line 3: it is not YAML"),
        ("a: 1\n\tb: 2", "line 2: it is not YAML"),
        ("a: 1\nb: &x [1]\nc: *x", "line 3: the alias"),
        (BOMB, "line 2: the alias"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]", "line 2: the tag"),
        ("a: 1\nb: 2\na: 3", "line 3: the key 'a' occurs twice"),
        ("1: 2", "line 1: keys are text; got 1"),
        ("? [a]\n: 2", "keys are text"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("a: " + "[" * 100_000, "line 1: it is nested more than 32 deep"),
        ("\na: " + "9" * 400_000, "line 2: .* is too large"),
        ("a: 1e999", "line 1: 1e999 is too large"),
        (b"a: 1\nb: \xff", "line 2: it is not UTF-8"),
        ("a: 1".encode("utf-16"), "line 1: it is not UTF-8"),
        ("a: \0", "not YAML"),
        ("a: " + "x" * MOST_BYTES, "too large"),
        ("", "must hold options; got nothing"),
        ("- 1", "must hold options; got list"),
    ],
    ids=range(18),
)
def test_what_is_wrong_is_said_with_its_line(tmp_path, text, message):
    with pytest.raises(ConfigError, match=rf"c\.yaml.*{message}"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n"b": [1, 2', "line 2: it is not JSON"),
        ('{"a": 1,\n"a": 2}', "line 2: the key 'a' occurs twice"),
        ('{"a":\nNaN}', "line 2: NaN"),
        ('{"a": "\\ud800"}', "surrogates"),
        ('{"a": ' + "[" * 100_000, "nested"),
        ('{"a": ' + "[" * 40 + "]" * 40 + "}", "nested"),
        ('{"a": ' + "9" * 400_000 + "}", "too large"),
    ],
    ids=range(7),
)
def test_json_is_read_by_the_same_rules(tmp_path, text, message):
    with pytest.raises(ConfigError, match=rf"c\.json.*{message}"):
        read(tmp_path, text, "c.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("training:\n  epochs: 5\n  weight_decay: x", r"line 3, training\.weight_decay: .* a number"),
        ('model:\n  layer:\n    dropout: "0.5"', r"line 3, model\.layer\.dropout: .*number; got '0\.5'"),
        ("model:\n  layer: {maps: 3}", r"line 2, model\.layer\.maps: maps must be a name; got 3"),
        ("model:\n  layer:\n    norm: batch\n    dropout: 1.5", r"line 4, model\.layer\.dropout: .*\[0, 1\)"),
        ("training: {epochs: 1}\nmodel: {layer: {degre: 3}}", r"line 2, model\.layer\.degre: .*'degree'"),
        ("model: {layer: 3}", r"line 1, model\.layer: layer must be"),
        ("model: [1]", "line 1, model: model must be a mapping"),
        ("training: {epochs: {a: 1}}", r"line 1, training\.epochs.*: epochs must be an integer"),
        ("training: {epochs: null}", "line 1, training.epochs: epochs must be an integer; got None"),
        ("trainin: {}", "line 1, trainin: unknown part"),
        ("model: {model: {a: 1}}", r"line 1, model\.model"),
        ("model: {options: {heads: [1]}}", r"line 1, model\.options"),
        ("model: {layer: {maps: orthogonal(euler), stalk_dim: 5}}", r"line 1, model\.layer: .*from 2 to 3"),
    ],
    ids=range(13),
)  # fmt: skip
def test_a_mistyped_configuration_ends_the_command_with_code_2(tmp_path, capsys, text, message):
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError, match=rf"c\.yaml.*{message}"):
        read_configuration(tmp_path / "c.yaml")
    with pytest.raises(SystemExit) as end:
        main(["train", "--config", str(tmp_path / "c.yaml")])
    assert end.value.code == 2
    assert "c.yaml" in capsys.readouterr().err


def test_exponents_are_numbers_in_configurations_and_spaces(tmp_path):
    (tmp_path / "c.yaml").write_text("training: {learning_rate: 1e-2}")
    assert read_configuration(tmp_path / "c.yaml").training.learning_rate == 0.01
    (tmp_path / "s.yaml").write_text("training.epochs: 5\ntraining.learning_rate: [1e-2, '1e-3']")
    with pytest.raises(ConfigError, match=r"s\.yaml, line 2, training\.learning_rate: .*number; got '1e-3'"):
        Space.load(tmp_path / "s.yaml")


def test_values_are_checked_wherever_they_come_from(tmp_path):
    with pytest.raises(ConfigError, match="maps must be a name; got 3"):
        LayerConfig(maps=3)
    (tmp_path / "m.json").write_text(
        json.dumps(to_dict(ModelConfig())).replace('"norm": "layer"', '"norm": [1]')
    )
    with pytest.raises(ConfigError, match=r"m\.json, line 1, layer\.norm: norm must be a name"):
        load_config(tmp_path / "m.json", ModelConfig)


@st.composite
def broken(draw, seeds):
    """A file with a few bytes flipped, cut out, repeated or replaced by something unpleasant."""
    name = draw(st.sampled_from(sorted(seeds)))
    content = seeds[name]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 12)))
        middle = draw(
            st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=4), st.just(content[start:end] * 2))
        )
        content = content[:start] + middle + content[end:]
    return name, content


@pytest.mark.usefixtures("no_tracer")
@pytest.mark.fuzz("configuration files")
@settings(max_examples=fuzz_cases(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=broken(SEEDS))
def test_broken_files_are_read_or_refused(tmp_path, case):
    name, content = case
    (tmp_path / name).write_bytes(content)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    with suppress(ConfigError):
        READERS[name](str(tmp_path / name))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB
    assert time.monotonic() - start < 20


RECORD = b"""\
experiment: x
dataset: cora
cell: {model: gcn}
metric: accuracy
protocol: geom-gcn
features: none
rules: default
ddof: 0
configuration: {}
parameters: 7
scores:
- [0, 0, 0.5, 0.5, 3, 9]
search: null
seconds: 1.5
device: cpu
commit: abc
"""


@pytest.mark.fuzz("configuration files")
@settings(max_examples=fuzz_cases(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=broken({"gcn.yaml": RECORD}))
def test_broken_records_are_read_or_refused(tmp_path, case):
    (tmp_path / "gcn.yaml").write_bytes(case[1])
    with suppress(PolyNSDError):
        read_record(tmp_path / "gcn.yaml")
