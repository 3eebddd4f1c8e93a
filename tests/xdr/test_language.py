"""The compiler as a whole: determinism, names, extraction from specifications."""

from __future__ import annotations

from rpcrdma.xdr.language import compile_source, extract
from rpcrdma.xdr.language.names import definition_name, enumerator_name, field_name, method_name, module_name
from rpcrdma.xdr.language.writer import CallExpression, Writer

COUNTER = "struct a { int b; };\nprogram P { version V { a P_GET(void) = 1; } = 1; } = 7;\n"


def test_the_same_definition_gives_the_same_text() -> None:
    first = compile_source(COUNTER, source_name="counter.x").text
    assert compile_source(COUNTER, source_name="counter.x").text == first
    assert first.startswith('"""Generated from counter.x by `rpcrdma xdr compile`: do not edit."""\n')
    assert first.endswith("\n")


def test_an_empty_definition_gives_an_empty_module() -> None:
    namespace: dict[str, object] = {}
    exec(compile_source("", source_name="empty.x").text, namespace)
    assert namespace["__all__"] == []


def test_keywords_are_names_where_the_grammar_leaves_no_doubt() -> None:
    text = compile_source("struct s { int ddp; int limit; int pragma; };", source_name="s.x").text
    assert "    ddp: int\n    limit: int\n    pragma: int\n" in text


def test_methods_are_procedures_without_their_prefix_where_that_is_a_free_name() -> None:
    procedures = "NFSPROC3_READ MOUNTPROC3_MNT RPCBPROC_GETADDR NFSPROC_NULL PLAIN CB_COMPOUND XPROC_import XPROC_1"
    methods = "read mnt getaddr null plain cb_compound import_ xproc_1"
    assert [method_name(procedure, ()) for procedure in procedures.split()] == methods.split()
    assert method_name("BPROC_READ", {"read"}) == "bproc_read"


def test_names_of_python_are_avoided() -> None:
    assert [module_name(name) for name in ("list", "class", "file", "tail_")] == [
        "xdr_list",
        "xdr_class",
        "file",
        "xdr_tail_",
    ]
    members = ("from", "from_", "from__", "mro_", "list", "list_")
    fields = [field_name(name) for name in members]
    assert fields == ["from_", "from__", "from___", "mro__", "list", "list_"]
    assert tuple(map(definition_name, fields)) == members
    assert [enumerator_name(name) for name in ("mro", "None", "RED")] == ["mro_", "None_", "RED"]


def test_calls_are_wrapped_as_the_formatter_does() -> None:
    out = Writer()
    out.call("f(", ["a", CallExpression("g", ["b"])])
    out.call("function(", ["a" * 60, "b" * 54])
    out.call("f(", ["a" * 60, CallExpression("g", ["b" * 60, "c" * 60])])
    assert out.text().splitlines() == [
        "f(a, g(b))",
        "function(",
        f"    {'a' * 60}, {'b' * 54}",
        ")",
        "f(",
        f"    {'a' * 60},",
        "    g(",
        f"        {'b' * 60},",
        f"        {'c' * 60},",
        "    ),",
        ")",
    ]


PAGES = """
   The definition is as follows.  Marks such as "///" in prose stay out.

   /// /*
   ///  * A structure.
   ///  */
   ///
   ///
   /// struct pair {
   ///     int first;

Author                    Expires June 6, 2017                  [Page 9]
\f
Internet-Draft                A draft                      December 2016

   ///     int second<4>;   \t
   /// };
   ///not marked
   sed -e 's/^ *\\/\\/\\/ //'
   ///
"""

PLAIN = "/*\n * A structure.\n */\n\nstruct pair {\n    int first;\n    int second<4>;\n};\n"


def test_extraction_keeps_indentation_and_drops_sentinels_and_pages() -> None:
    assert extract(PAGES) == PLAIN
    assert extract(PAGES.replace("\n", "\r\n")) == PLAIN
    assert extract("no definition") == ""
    # And those of HTML.
    page = '<pre class="newpage">   /// struct <a href="#pair">pair</a> {\n///     int second&lt;4&gt;;\n/// };</pre>'
    assert extract(page) == "struct pair {\n    int second<4>;\n};\n"
