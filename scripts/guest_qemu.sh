#!/bin/bash
# Fetches a QEMU that speaks vfio-user, which Debian 12's does not: the package of Debian 13's
# backports with what it needs, unpacked beside the guest. Needs no root and installs nothing.
#
# usage: guest_qemu.sh DIRECTORY
#   writes DIRECTORY/qemu, a command, and DIRECTORY/qemu-root, what it runs
# Exits with 77 if the packages cannot be fetched.
set -euo pipefail
[[ $# == 1 ]] || { echo "usage: guest_qemu.sh DIRECTORY" >&2; exit 1; }
say() { printf 'guest_qemu.sh: %s\n' "$*" >&2; }
mkdir -p "$1"
out=$(readlink -f "$1")
[[ ! -x $out/qemu ]] || exit 0

mirror=http://deb.debian.org/debian
packages=(qemu-system-x86 qemu-system-common qemu-system-data seabios)
work=$(mktemp -d "$out/making.XXXXXX")
trap 'rm -rf "$work"' EXIT
say "fetching QEMU from Debian 13's backports, about 60 MB"
if ! mmdebstrap --quiet --mode=chrootless --variant=extract \
    --include="$(IFS=,; echo "${packages[*]/%//trixie-backports}")" trixie "$work/root" \
    "deb $mirror trixie main" "deb $mirror trixie-backports main" >"$work/log" 2>&1; then
  cat "$work/log" >&2
  say "the packages cannot be fetched"
  exit 77
fi
cat >"$work/qemu" <<'TEXT'
#!/bin/bash
root=$(dirname "$(readlink -f "$0")")/qemu-root/usr
export QEMU_MODULE_DIR=$root/lib/x86_64-linux-gnu/qemu
exec "$root/lib64/ld-linux-x86-64.so.2" --library-path "$root/lib/x86_64-linux-gnu" \
  "$root/bin/qemu-system-x86_64" -L "$root/share/qemu" -L "$root/share/seabios" "$@"
TEXT
chmod +x "$work/qemu"
rm -rf "$out/qemu-root"
mv "$work/root" "$out/qemu-root"
mv "$work/qemu" "$out/qemu"
"$out/qemu" --version | head -n 1
