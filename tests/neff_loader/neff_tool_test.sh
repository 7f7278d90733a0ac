#!/bin/sh
# The neff tool end to end: exit codes, and pack -> unpack -> pack, as -> dis -> as.
set -eu
neff=$1 examples=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

expect() {  # code command...
  want=$1
  shift
  got=0
  "$@" >out.txt 2>err.txt || got=$?
  [ "$got" = "$want" ] || { echo "exit code $got, expected $want: $*"; cat err.txt; exit 1; }
}

expect 0 "$neff" --help
expect 2 "$neff"
expect 2 "$neff" frob
expect 2 "$neff" pack "$examples/vector_add"
expect 2 "$neff" pack "$examples/vector_add" -o x.neff --uuid 12
expect 1 "$neff" info missing.neff
expect 1 "$neff" pack missing -o x.neff

expect 0 "$neff" pack "$examples/vector_add" -o add.neff
[ -s err.txt ] && { cat err.txt; exit 1; }
expect 0 "$neff" unpack add.neff
[ -f add/neff.tgz ] && [ -f add/sg00/sp.bin ]
expect 1 "$neff" unpack add.neff
grep -q "not an empty directory" err.txt
expect 0 "$neff" pack add -o again.neff --name vector_add
cmp add.neff again.neff

expect 0 "$neff" info add.neff
grep -q "network_name: vector_add" out.txt
grep -q "tensor c: 32768 bytes, OUT, format NC, shape \[128,64\], float32" out.txt
expect 0 "$neff" info --json-output add.neff
grep -q '"loadable": "yes"' out.txt

expect 0 "$neff" dis add.neff --member sg00/dve.bin -o dve.s
expect 0 "$neff" as dve.s -o dve.bin
cmp dve.bin add/sg00/dve.bin
expect 0 "$neff" dis dve.bin
expect 1 "$neff" dis dve.s
echo HALLT > bad.s
expect 1 "$neff" as bad.s --engine sp --arch trn1
grep -q "bad.s line 1: unknown instruction 'HALLT'" err.txt
expect 2 "$neff" as bad.s --engine cpu

head -c 1500 add.neff > short.neff
expect 1 "$neff" info short.neff
grep -q "V-04" err.txt
{ head -c 1100 add.neff; printf 'xxxx'; tail -c +1105 add.neff; } > flipped.neff
expect 0 "$neff" info flipped.neff
grep -q "loadable: no" out.txt
expect 1 "$neff" unpack flipped.neff -o flipped
rm -rf evil && mkdir evil && ln -s /etc/passwd evil/link
expect 1 "$neff" pack evil -o evil.neff
echo ok
