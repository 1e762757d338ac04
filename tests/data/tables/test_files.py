"""Tables by extension: everything a text file can do wrong has one clear error."""

import gzip

import pandas as pd
import pytest

from polynsd.data.tables import TextFormat, write_table
from polynsd.data.tables.files import extension_of, read_table
from polynsd.data.tables.summary import summarize_columns
from polynsd.errors import ConfigError, DataError


def table(tmp_path, data, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(data)
    return read_table(path)


def rows(table):
    return {name: table.column(name).values.tolist() for name in table.columns}


@pytest.mark.parametrize(
    "data",
    [
        b"a,b\n1,x\n2,y\n",
        b"\xef\xbb\xbfa,b\n1,x\n2,y\n",
        b"a,b\r\n1,x\r\n2,y\r\n",
        b"a,b\r1,x\r2,y",
        b'"a","b"\n"1","x"\n2,"y"',
        b"\n\na , b\n 1 , x\n\n2,y\n\n",
    ],
)
def test_ways_to_write_the_same_table(tmp_path, data):
    assert rows(table(tmp_path, data)) == {"a": ["1", "2"], "b": ["x", "y"]}


def test_other_text_formats(tmp_path):
    assert rows(table(tmp_path, b"a\tb\n1\tx,y\n", "t.TSV")) == {"a": ["1"], "b": ["x,y"]}
    assert rows(table(tmp_path, gzip.compress(b"a,b\n1,x\n"), "t.csv.gz")) == {"a": ["1"], "b": ["x"]}


def test_quotes_unicode_and_leading_zeros_survive(tmp_path):
    data = 'name,code\n"say ""hi"", Žofie",007\n東京,0\n'.encode()
    assert rows(table(tmp_path, data)) == {"name": ['say "hi", Žofie', "東京"], "code": ["007", "0"]}


@pytest.mark.parametrize(
    ("data", "fragment"),
    [
        (b"", "t.csv is empty"),
        (b"\n\n", "must have columns; it is empty"),
        (b"a;b\n1;2\n", "only one column was found, 'a;b'.*separated by commas"),
        (b"a\tb\n1\t2\n", r"only one column was found.*delimiter='\\t'"),
        (b",a,b\n0,1,2\n", "column 1 has none.*index=False"),
        (b"a,a\n1,2\n", "'a' occurs 2 times"),
        (b"a,b\n1\n", "Expected 2 columns, got 1"),
        (b"a,b\n1,2,3\n", "Expected 2 columns, got 3"),
        (b'a,b\n1,"2\n3,4\n', "column 'b'.*line break; row 1 does"),
        ("a,b\nü,1\n".encode("latin-1"), "UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "UTF-8"),
        ("ü,b\n1,2\n".encode("latin-1"), "must be encoded in UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "encoding='utf-16'"),
        (b"sep=;\na;b\n1;2\n", "'sep=;', is for Excel alone"),
    ],
)
def test_what_is_wrong_with_a_text_file(tmp_path, data, fragment):
    with pytest.raises(DataError, match=fragment):
        table(tmp_path, data)


def test_damaged_binary_files(tmp_path):
    with pytest.raises(DataError, match=r"cannot be read as .parquet"):
        table(tmp_path, b"PAR1 and nothing else", "t.parquet")
    with pytest.raises(DataError, match=r"cannot be read as .csv.gz"):
        table(tmp_path, gzip.compress(b"a,b\n1,2\n")[:-9], "t.csv.gz")


def test_no_file_and_unknown_extension(tmp_path):
    with pytest.raises(DataError, match="there is none"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(ConfigError, match=r"unknown file extension '.parqet'.*Did you mean '.parquet'"):
        read_table("edges.parqet")
    with pytest.raises(ConfigError, match=r"unknown file extension '.xlsx'"):
        write_table(pd.DataFrame({"a": [1]}), "t.xlsx")


@pytest.mark.parametrize("extension", [".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet"])
def test_what_is_written_is_read(tmp_path, extension):
    path = tmp_path / f"my.table{extension}"
    write_table(pd.DataFrame({"id": ["007", "x,\ty"], "v": [1, 2]}), path)
    read = rows(read_table(path))
    assert read["id"] == ["007", "x,\ty"]
    assert [int(v) for v in read["v"]] == [1, 2]


def test_extensions():
    assert extension_of("a/b.c.CSV.GZ") == ".csv.gz"
    assert extension_of("a.graphml") == ".graphml"
    assert extension_of("a") == ""


def test_delimiter_and_encoding(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("stra\u00dfe;größe\nA;1,5\n".encode("latin-1"))
    table = read_table(path, TextFormat(";", "latin-1", ","))
    assert table.columns == ["stra\u00dfe", "größe"]
    assert table.column("größe").numbers.tolist() == [1.5]
    with pytest.raises(DataError, match="encoding='latin-1'"):
        read_table(path)
    path.write_text("a;b\n1;2\n")
    with pytest.raises(DataError, match="delimiter=';'"):
        read_table(path)
    for wrong, fragment in (
        ({"delimiter": ";;"}, "one character"),
        ({"encoding": "latin-99"}, "'latin-99'"),
        ({"decimal": "·"}, "decimal must be"),
    ):
        with pytest.raises(ConfigError, match=fragment):
            TextFormat(**wrong)


def test_a_look_at_any_table(tmp_path):
    path = tmp_path / "t.csv"
    rows = ("1,1970-01-01,red,ab,,3/4/1970", "2.5,2024-05-01,red,cd,,1/2/1970", ",,,ef,,", "4,,blue,gh,,")
    path.write_text("\n".join(["n,d,c,x,e,o", *rows, ""]))
    found = [(c.name, c.kind, c.missing, c.distinct, c.values) for c in summarize_columns(read_table(path))]
    assert found[:5] == [
        ("n", "numbers", 1, 3, "1 … 4"),
        ("d", "dates", 2, 2, "1970-01-01 … 2024-05-01"),
        ("c", "text", 1, 2, "red, blue"),
        ("x", "text", 0, 4, "ab, cd, ef, …"),
        ("e", "empty", 4, 0, ""),
    ]
    assert found[5][1].startswith("unreadable")
    assert "day/month" in found[5][4]
