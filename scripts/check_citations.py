#!/usr/bin/env python3
"""Checks that every citation leads somewhere: check_citations.py ROOT.

A citation is a document and, where it has numbered parts, the numbers: spec/timing.md 5 (the file
docs/spec/timing.md), docs/hardware-contract.md 1 to 3, docs/abi.md#time, [text](page.md#heading).
Numbers are headings that begin with them; ids such as C-13 begin a heading, a list item or a row of
a table; "rule 2", "steps 1 to 3" and "item 4" are numbered in their section the same way. Comments
may break a citation over lines. Inside docs/spec "section 4.2" means the same document. Elsewhere
numbers alone in parentheses mean the specification, if the file names exactly one. Prints file:line
for each citation that fails; exit status 1 if there is one.
"""
import bisect
import pathlib
import re
import sys

SUFFIXES = {".h", ".c", ".cpp", ".py", ".md", ".json", ".txt", ".cmake", ".map", ".proto", ".regs",
            ".trace", ".csv"}
CODE = {".h", ".c", ".cpp", ".py", ".map"}
NAMES = {"dev"}
SKIPPED = {"build", ".git", ".cache"}
FUZZ_INPUT = ("tests", "fuzz", "corpus")  # bytes for a parser, not text for readers

NUMBER = r"\d+(?:\.\d+)*(?!\.?\w|-[A-Za-z])"
IDENTIFIER = r"[A-Z]{1,2}-\d+|[A-Z]\d\d(?:\.\d+)?|[Aa]ppendix [A-Z]"
ITEM = r"\d+(?!\.?\d)"
ITEMS = rf"(?:,? (?P<kind>rule|step|item)s? (?P<items>{ITEM}(?:(?:, | and | to |-){ITEM})*))?"
PART = rf"(?P<part>{NUMBER}|{IDENTIFIER}){ITEMS}"
JOIN = r"(?: \([^()]{1,80}\))?(?:, rules | and |, | to | - |-| (?=[A-Z]-))(?:sections? )?"
DOCUMENT = re.compile(r"(?<![\w./-])(?<!\]\()(?P<path>(?:[\w.-]+/)*[\w-]+\.md)(?!\w|`?\]\()"
                      r"(?P<anchor>#[\w-]+)?`?")
FIRST_PART = re.compile(rf"(?:,? sections?|, rules|,)? {PART}")
NEXT_PART = re.compile(rf"{JOIN}{PART}")
OWN_PART = re.compile(rf"\b[Ss]ections? (?P<first>{NUMBER})|(?<!`)\b(?P<appendix>Appendix [A-Z])\b")
ALONE = re.compile(r"(?<![\w.)\]])\((?P<numbers>\d+(?:\.\d+)+(?:(?:, | and | to )\d+(?:\.\d+)+)*)"
                   r"\)")
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$")
HEADING_ID = re.compile(rf"(?P<id>{IDENTIFIER}|\d+(?:\.\d+)*)\.?(?:\s|$)")
ROW_ID = re.compile(rf"^\s*(?:\| |[*-] )\**(?P<id>{IDENTIFIER})\**(?:\.| )")
ITEM_LINE = re.compile(r"^\s*(?:\| (?P<row>\d+) \||(?P<entry>\d+)\. )")
COMMENT = re.compile(r"^\s*(?://+|/?\*+(?!/)|#+)\s?")


def slug(title):
    """The anchor that GitHub gives a heading."""
    title = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower()
    return re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


class Document:
    """What a document offers to be cited."""

    def __init__(self, text):
        self.anchors = set(re.findall(r'<a id="([^"]+)">', text))
        self.parts = set(self.anchors)
        self.items = {}  # section -> numbers of its list items and table rows
        section, fenced = "", False
        for line in text.splitlines():
            fenced ^= line.lstrip().startswith("```")
            heading = None if fenced else HEADING.match(line)
            if heading:
                self.add_anchor(slug(heading["title"]))
                found = HEADING_ID.match(heading["title"])
                section = found["id"] if found else section
                self.parts.add(section)
            elif row := ROW_ID.match(line):
                self.parts.add(row["id"])
            elif item := ITEM_LINE.match(line):
                self.items.setdefault(section, set()).add(int(item["row"] or item["entry"]))

    def add_anchor(self, anchor):
        same, count = anchor, 0
        while anchor in self.anchors:
            count += 1
            anchor = f"{same}-{count}"
        self.anchors.add(anchor)

    def missing(self, match):
        """What of one cited part is not there."""
        part = re.sub("^appendix", "Appendix", match["part"])
        if part not in self.parts:
            yield part
        elif match["kind"]:
            for item in re.findall(r"\d+", match["items"]):
                if int(item) not in self.items.get(part, ()):
                    yield f"{part} {match['kind']} {item}"


class Flat:
    """Text whose comments are joined, so that a citation may go on in the next line."""

    def __init__(self, path, text):
        joined, self.starts = [], []
        length = 0
        free = path.suffix in {".md", ".py", ".txt"}
        for line in text.split("\n"):
            comment = COMMENT.match(line)
            content = line[comment.end():] if comment and path.suffix != ".md" else line.strip()
            glue = " " if free or comment else "\n"
            self.starts.append(length + 1)
            joined.append(glue + content.rstrip())
            length += len(joined[-1])
        self.text = "".join(joined)

    def line(self, position):
        return bisect.bisect_right(self.starts, position + 1)


class Tree:
    def __init__(self, root):
        self.root = root
        self.documents = {}
        self.specifications = {path.name for path in (root / "docs" / "spec").glob("*.md")
                               if path.name != "README.md"}

    def document(self, path):
        if path not in self.documents:
            self.documents[path] = Document(path.read_text()) if path.is_file() else None
        return self.documents[path]

    def find(self, citing, name):
        """(document or None, message): the file that `citing` means by `name`."""
        if name.startswith("spec/"):
            candidates = [self.root / "docs" / name]
        elif "/" not in name and name in self.specifications and citing.suffix != ".md":
            return None, f"ambiguous; say spec/{name} or docs/{name}"
        else:
            candidates = [citing.parent / name, self.root / name]
        for path in candidates:
            if document := self.document(path.resolve()):
                return document, ""
        return None, "no such document"

    def breaches(self, path, text):
        """Yields (line number, citation, what is missing) for one file."""
        flat = Flat(path, text)
        specification = path.parent == self.root / "docs" / "spec"
        if path.suffix == ".md":
            yield from self.links(path, flat)
        if specification and path.name in self.specifications:
            yield from self.own_parts(path, flat)
        named = set()
        for match in DOCUMENT.finditer(flat.text):
            line, name = flat.line(match.start()), match["path"]
            if specification and "/" in name and not name.startswith("spec/"):
                continue  # a file of the source that the specification names
            named.add(name)
            document, message = self.find(path, name)
            if not document:
                yield line, name, message
                continue
            if match["anchor"] and match["anchor"][1:] not in document.anchors:
                yield line, name + match["anchor"], "no such heading"
            part = FIRST_PART.match(flat.text, match.end())
            while part:
                for lost in document.missing(part):
                    yield line, f"{name} {part['part']}", f"no {lost} there"
                part = NEXT_PART.match(flat.text, part.end())
        named = {name for name in named if name.startswith("spec/")}
        if len(named) == 1 and path.suffix in CODE:
            yield from self.numbers_alone(path, flat, named.pop())

    def numbers_alone(self, path, flat, name):
        document = self.find(path, name)[0]
        for match in ALONE.finditer(flat.text) if document else ():
            for number in re.findall(r"[\d.]+", match["numbers"]):
                if number not in document.parts:
                    yield flat.line(match.start()), match.group(), f"{name} has no {number}"

    def links(self, path, flat):
        for match in LINK.finditer(flat.text):
            target, _, anchor = match["target"].partition("#")
            if ":" in target:
                continue
            file = (path.parent / target).resolve() if target else path
            line = flat.line(match.start())
            if not file.exists():
                yield line, match["target"], "no such file"
            elif anchor and anchor not in self.document(file).anchors:
                yield line, match["target"], "no such heading"

    def own_parts(self, path, flat):
        parts = self.document(path.resolve()).parts
        for match in OWN_PART.finditer(flat.text):
            part = match["first"] or match["appendix"]
            before = flat.text[:match.start()].rstrip("` ,(")
            if part not in parts and not before.endswith(".md"):
                yield flat.line(match.start()), match.group(), f"no {part} in this document"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    tree = Tree(root)
    count = files = 0
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED & set(relative.parts) or relative.parts[:3] == FUZZ_INPUT:
            continue
        if not path.is_file() or (path.suffix not in SUFFIXES and path.name not in NAMES):
            continue
        files += 1
        for line, citation, message in tree.breaches(path, path.read_text(errors="replace")):
            print(f"{relative}:{line}: {citation}: {message}")
            count += 1
    print(f"{files} files, {count} citations that lead nowhere")
    return 1 if count or not files else 0


if __name__ == "__main__":
    sys.exit(main())
