"""Bounds on the memory and the time that a definition or a JSON document can claim, each with its reason."""

from __future__ import annotations

# Compiling interface definitions, of which some come from others

XDR_FILE_OCTETS_MAX = 64 << 20
"""Octets of a file that the compiler's commands read: forty times the longest specification, of NFSv4.1."""

XDR_DEFINITION_CHARACTERS_MAX = 1 << 19
"""Characters of a definition, after the preprocessor: three times the longest one, of NFSv4.2, and at most some ten
seconds of a compiler whose time grows with them."""

XDR_LINE_NUMBER_MAX = 1 << 20
"""The largest line number in a line marker of the preprocessor; a larger one counts as this one. A remark about a file
that cannot be read has as many line ends. A definition has half as many lines at most, after the preprocessor."""

XDR_NAME_CHARACTERS_MAX = 1000
"""Characters of a name in a definition: names in generated code consist of several of them."""

XDR_CLASSES_NESTED_MAX = 64
"""Structures and unions within each other, in place or by name, and typedefs of typedefs: compiler, codecs and readers
of JSON take some frames for each level, of which Python has 1,000. Definitions in use have a dozen levels."""

XDR_ITEMS_NESTED_MAX = 8
"""Arrays and pointers within each other without a structure between them, three times what definitions have: a decoder
takes a frame for each of them in each of XDR_CLASSES_NESTED_MAX levels."""

XDR_UNION_TYPES_MAX = 100
"""Types in the annotation of a union's value: Python parses each alternative one level deeper. With more it is Any."""

XDR_BOUND_PRAGMAS_MAX = 256
"""`pragma bound` lines: each can make the compiler measure all types once more. NFSv3 has a dozen."""

XDR_REMARKS_MAX = 100
"""Errors or warnings of one definition that are reported, the first ones by place: people read no more of them."""

XDR_NAMES_COMPARED_MAX = 2000
"""Names among which the hint for an unknown one is looked for: some milliseconds, or a second for names alike."""

XDR_NAME_COMPARED_CHARACTERS_MAX = 40
"""Characters of an unknown name for which a hint is looked for: the time of a comparison grows with their square."""

XDR_HINTS_MAX = 10
"""Errors after which no more hints are looked for."""

XDR_PREPROCESSOR_S = 20.0
"""Seconds that a C preprocessor may take: files that include each other twice keep it busy for ever."""

JSON_CLASSES_WALKED_MAX = 10_000
"""Structures and unions that are walked through to show the form of a type's documents, or the places of their opaque
data: one that occurs twice in each of twenty levels occurs a million times. NFSv4.1's largest type takes some hundreds.
"""

JSON_FILE_OCTETS_MAX = 256 << 20
"""Octets of a JSON document, and of a file that stands for opaque data in one: all of it is held in memory. Servers of
this library take arguments of 1 MiB by default."""

# Reading the configuration of a server

CONFIGURATION_OCTETS_MAX = 1 << 20
"""Octets of one configuration file: some three thousand exports, whose parsing takes a second."""

CONFIGURATION_FILES_MAX = 1000
"""Files of exports beside a configuration file: one for each export of a large server, several times over."""

CONFIGURATION_KEY_NAMES_MAX = 64
"""Names of one key of a configuration file, where no setting has more than three: the time that a key takes grows with
their square. Dots outside texts of one line are counted."""

CONFIGURATION_FAULT_LETTERS_MAX = 500
"""Characters of one mistake of a configuration; the middle of a longer one, a key or value of the file, is left out."""

CONFIGURATION_FAULTS_MAX = 100
"""Mistakes of a configuration in one report, the first ones by place: people read no more of them."""
