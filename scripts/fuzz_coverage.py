#!/usr/bin/env python3
"""How many lines of its handlers a fuzz target's corpus reaches:

    fuzz_coverage.py TARGET PROFILE HANDLERS

TARGET is the instrumented program, PROFILE the raw profile of a run over the corpus, HANDLERS a
file with the sources (files or directories of the repository, or beginnings of their names).
"""
import json
import os
import subprocess
import sys


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    target, profile, handlers_file = sys.argv[1:]
    with open(handlers_file, encoding='ascii') as file:
        handlers = tuple(file.read().split())
    merged = profile + '.merged'
    subprocess.run(['llvm-profdata-14', 'merge', '-sparse', profile, '-o', merged], check=True)
    exported = subprocess.run(
        ['llvm-cov-14', 'export', '-summary-only', f'-instr-profile={merged}', target],
        check=True, stdout=subprocess.PIPE).stdout
    covered = total = 0
    for each in sorted(json.loads(exported)['data'][0]['files'], key=lambda f: f['filename']):
        name = os.path.relpath(os.path.normpath(each['filename']))
        name = name.split('/build/fuzz/')[-1]
        lines = each['summary']['lines']
        if not name.startswith(handlers) or lines['count'] == 0:
            continue
        print(f"  {name:44} {lines['covered']:5} of {lines['count']:5} lines"
              f"  {100 * lines['covered'] / lines['count']:5.1f} %")
        covered += lines['covered']
        total += lines['count']
    if total == 0:
        sys.exit(f'fuzz_coverage: none of the handlers of {target} is in it')
    print(f"  {'all':44} {covered:5} of {total:5} lines  {100 * covered / total:5.1f} %")


if __name__ == '__main__':
    main()
