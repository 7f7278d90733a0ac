#!/bin/sh
# check_exports.sh ndl <libndl.so> <header directory>   exports are the declared functions, no emulator's name inside
# check_exports.sh shim <libshim.so> <docs/abi.md>      exports are the documented interposed functions
set -eu
mode=$1 library=$2 reference=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u >"$work/have"
case $mode in
ndl)
  cat "$reference/ndl.h" "$reference/nrt/nds/neuron_ds.h" | grep -oE '\b(ndl|nds)_[a-z0-9_]+ ?\(' |
    tr -d ' (' | sort -u >"$work/want"
  if strings -a "$library" | grep -i soma; then
    echo "the emulator's name is in $library"
    exit 1
  fi
  if readelf -d "$library" | grep -i systemc; then
    echo "$library links SystemC"
    exit 1
  fi
  readelf -d "$library" | grep -q 'SONAME.*\[libndl.so.1\]' || { echo "wrong SONAME"; exit 1; }
  ;;
shim)
  # The table's rows start with: | `function` |
  sed -n 's/^| `\([a-z0-9_]*\)` |.*/\1/p' "$reference" | sort -u >"$work/want"
  ;;
esac
diff "$work/want" "$work/have" || { echo "< declared or documented, > exported by $library"; exit 1; }
