"""Remarks about preprocessed definitions name the places of the original files."""

from __future__ import annotations

import pytest

from rpcrdma.file_limits import XDR_LINE_NUMBER_MAX
from rpcrdma.xdr.language import Diagnostic, LanguageError, compile_source
from rpcrdma.xdr.language.diagnostics import SourceSpan
from rpcrdma.xdr.language.preprocessed import Located, Origin, read_preprocessed
from support.cases import each_case

MAIN = (
    '#include "size.x"\n\tstruct\ts {  /* two of them */\n\t\topaque a<>;\n\t\tstring b<MOST>;\n};\nconst SIZE = 4;\n'
)
INCLUDED = "const SIZE = 3;\n"
# The output of cpp for MAIN with -DMOST=: tabs and comments become single spaces.
OUTPUT = """\
# 0 "main.x"
# 0 "<built-in>"
# 1 "main.x"
# 1 "size.x" 1
const SIZE = 3;
# 2 "main.x" 2
 struct s {
  opaque a<>;
  string b<>;
};
const SIZE = 4;
"""
FILES = {"main.x": MAIN, "size.x": INCLUDED}


def located(output: str) -> list[Located]:
    preprocessed = read_preprocessed(output, "main.x")
    with pytest.raises(LanguageError) as raised:
        compile_source(preprocessed.text, source_name="main.x")
    return [preprocessed.located(remark, FILES.get) for remark in raised.value.diagnostics]


def test_places_are_those_of_the_files() -> None:
    shown = [remark.render(source, file) for remark, file, source in located(OUTPUT)]
    assert shown == [
        (
            "error: main.x:3:10: s.a has no limit\n  \t\topaque a<>;\n  \t\t       ^\n"
            "hint: write <N>, or add: pragma limit s.a N;"
        ),
        (
            "error: main.x:4:10: s.b has no limit\n  \t\tstring b<MOST>;\n  \t\t       ^\n"
            "hint: write <N>, or add: pragma limit s.b N;"
        ),
        ("error: main.x:6:7: SIZE is defined twice\n  const SIZE = 4;\n        ^^^^\nhint: first in line 1 of size.x"),
    ]


def test_a_place_of_several_words_is_as_long_as_in_the_file() -> None:
    preprocessed = read_preprocessed('# 1 "a.x"\nstruct s { unsigned long a; };\n', "a.x")
    remark = Diagnostic(SourceSpan(2, 12, len("unsigned long")), "no type")
    original = "struct s {\tunsigned  \tlong  a; };\n"
    assert preprocessed.located(remark, {"a.x": original}.get) == Located(
        Diagnostic(SourceSpan(1, 12, len("unsigned  \tlong")), "no type"), "a.x", original
    )
    other = "struct s { unsigned LONG a; };\n"
    assert preprocessed.located(remark, {"a.x": other}.get).source == "struct s { unsigned long a; };"


def test_what_a_macro_made_is_shown_as_it_was_compiled() -> None:
    (remark, file, source), *_ = located('# 3 "main.x"\ntypedef char opaque_a<>;\n')
    assert (file, remark.place.line, remark.place.column) == ("main.x", 3, 9)
    assert source.split("\n")[2] == "typedef char opaque_a<>;"


def test_lines_of_unknown_files_and_beyond_their_ends_are_shown_as_they_were_compiled() -> None:
    for marker, line in (('# 7 "gone.x"', 7), ('# 70 "main.x"', 70)):
        ((remark, _, source),) = located(f"{marker}\nstruct s {{ none a; }};\n")
        assert remark.render(source, "f") == (
            f"error: f:{line}:12: type none is not defined\n  struct s {{ none a; }};\n             ^^^^"
        )


@each_case("number", [str(XDR_LINE_NUMBER_MAX), str(XDR_LINE_NUMBER_MAX + 1), "30000000", "9" * 5000])
def test_a_line_number_is_bounded(number: str) -> None:
    ((remark, _, source),) = located(f'# {number} "gone.x"\nstruct s {{ none a; }};\n')
    assert remark.place.line == source.count("\n") + 1 == XDR_LINE_NUMBER_MAX


def test_a_line_number_may_have_leading_zeros() -> None:
    assert read_preprocessed('# 0000000000012 "f.x"\n', "main.x").origins[1] == Origin("f.x", 12)


def test_a_place_after_the_last_line_is_of_that_line() -> None:
    preprocessed = read_preprocessed('# 4 "gone.x"\nconst A = 1;', "main.x")
    remark, file, source = preprocessed.located(Diagnostic(SourceSpan(3, 1), "ends too soon"), FILES.get)
    assert (remark.place.line, file, source) == (4, "gone.x", "\n\n\nconst A = 1;")


def test_directives_for_compilers_of_c_are_left_out() -> None:
    read = read_preprocessed('#pragma ident "x"\nconst A = 1;\n#line 8 "a\\"b.x"\nconst B = 2;', "main.x")
    assert read.text == "\nconst A = 1;\n\nconst B = 2;"
    assert list(read.origins)[1::2] == [Origin("main.x", 2), Origin('a"b.x', 8)]


def test_an_end_that_comes_too_soon_has_a_place() -> None:
    ((remark, file, _),) = located('# 4 "main.x"\nstruct s {\n')
    assert (file, remark.message) == ("main.x", "expected a type, found end of file")
    assert remark.place.line in {4, 5}


def test_a_form_feed_ends_no_line() -> None:
    with pytest.raises(LanguageError) as raised:
        compile_source("const A = 1;\f\nstruct s { none a; };", source_name="t.x")
    assert str(raised.value) == (
        "error: t.x:2:12: type none is not defined\n  struct s { none a; };\n             ^^^^"
    )
    assert isinstance(raised.value.diagnostics[0], Diagnostic)
