#!/usr/bin/env python3
"""Repeats the sweeps of a page and renews their pictures and tables: studies.py BUILD_DIR PAGE.

Runs every fenced block of the page that is a `soma sweep`, from the root of the tree; what it prints
replaces the text between the markers RESULT and END that follow it. The pictures are what the
commands write. Fails if a command fails; the page then stays as it was.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULT, END = "<!-- result -->\n", "<!-- end of the result -->\n"
STUDY = re.compile(r"(```\n(soma sweep [^`]*)```\n(?:(?!```).)*?" + RESULT + ").*?(" + END + ")", re.S)


def main():
    build, page = map(pathlib.Path, sys.argv[1:])
    environment = dict(os.environ, PATH=f"{(build / 'bin').resolve()}:{os.environ['PATH']}")

    def repeat(match):
        result = subprocess.run(["bash", "-c", match[2]], cwd=ROOT, env=environment, text=True,
                                stdout=subprocess.PIPE, check=False)
        if result.returncode != 0:
            sys.exit(f"studies: exit status {result.returncode} of\n{match[2]}")
        return f"{match[1]}{result.stdout}{match[3]}"

    text, count = STUDY.subn(repeat, page.read_text())
    if count == 0:
        sys.exit(f"studies: {page} has no study")
    page.write_text(text)


if __name__ == "__main__":
    main()
