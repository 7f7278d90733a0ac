#!/bin/bash
# Makes a guest for QEMU: the kernel of a Debian package, and an initramfs with busybox, lspci and a
# test program. Needs no root. What is there already and still right is kept.
#
# usage: guest.sh DIRECTORY TEST_PROGRAM
#   writes DIRECTORY/vmlinuz and DIRECTORY/initramfs.cpio.gz
#   GUEST_KERNEL=FILE takes that kernel image instead of the package's
set -euo pipefail
export LC_ALL=C  # the output of apt-cache is read
package=linux-image-cloud-amd64  # depends on the kernel of the day
root=$(dirname "$(dirname "$(readlink -f "$0")")")

say() { printf 'guest.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[[ $# == 2 ]] || die "usage: guest.sh DIRECTORY TEST_PROGRAM"
mkdir -p "$1"
out=$(readlink -f "$1")
program=$(readlink -f "$2")
[[ -x $program ]] || die "there is no program $2"
work=$(mktemp -d "$out/making.XXXXXX")
trap 'rm -rf "$work"' EXIT

# --- kernel ---

offered() {
  apt-cache depends "$package" 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}

version_of() {
  apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: *//p'
}

# apt takes back old packages, so lists of yesterday may name what is gone.
refresh_lists() {
  [[ -z ${SOMA_NO_INSTALL:-} ]] || return 1
  if [[ $(id -u) == 0 ]]; then apt-get update -qq >&2; else sudo -n apt-get update -qq >&2; fi
}

download() { (cd "$work" && apt-get download -qq "$1" >&2); }

get_kernel() {
  local name
  name=$(offered)
  [[ $name ]] || { refresh_lists && name=$(offered); } || return 1
  [[ $name ]] || return 1
  local stamp="$name $(version_of "$name")"
  [[ ! -e $out/vmlinuz || $(cat "$out/vmlinuz.from" 2>/dev/null) != "$stamp" ]] || return 0
  say "downloading $stamp"
  if ! download "$name"; then
    refresh_lists || return 1
    name=$(offered)
    stamp="$name $(version_of "$name")"
    download "$name" || return 1
  fi
  dpkg-deb --fsys-tarfile "$work"/linux-image-*.deb |
    tar -C "$work" -xf - --wildcards './boot/vmlinuz-*'
  mv "$work"/boot/vmlinuz-* "$out/vmlinuz"
  echo "$stamp" > "$out/vmlinuz.from"
}

if [[ ${GUEST_KERNEL:-} ]]; then
  cp "$GUEST_KERNEL" "$work/vmlinuz"
  mv "$work/vmlinuz" "$out/vmlinuz"
  echo "$GUEST_KERNEL" > "$out/vmlinuz.from"
elif ! get_kernel; then
  [[ -e $out/vmlinuz ]] || die "apt cannot deliver the kernel package ($package); run 'apt-get" \
    "update', or give a kernel image with built-in serial console, PCI and hugetlbfs:" \
    "GUEST_KERNEL=FILE"
  say "apt cannot deliver the kernel package; using the one of before: $(cat "$out/vmlinuz.from")"
fi

# --- initramfs ---

busybox=$(command -v busybox) || die "busybox is missing; install busybox-static"
lspci=$(PATH=$PATH:/usr/bin:/sbin command -v lspci) || die "lspci is missing; install pciutils"
command -v cpio > /dev/null || die "cpio is missing; install it"
file_ids=/usr/share/misc/pci.ids
# Every shared library with the path under which the loader looks for it.
mapfile -t libraries < <(
  { ldd "$lspci"; ldd "$busybox" || true; } 2> /dev/null | sort -u |
    sed -n 's/^.*=> \(\/[^ ]*\) .*$/\1/p; s/^\t\(\/[^ ]*\) .*$/\1/p')

inputs=$(sha256sum "$busybox" "$lspci" "${libraries[@]}" "$program" "$root/tests/guest/init" "$0")
[[ ! -e $out/initramfs.cpio.gz || $(cat "$out/initramfs.from" 2>/dev/null) != "$inputs" ]] || exit 0

tree=$work/tree
mkdir -p "$tree"/{bin,dev,proc,sys,usr/share/misc}
cp "$root/tests/guest/init" "$tree/init"
cp "$busybox" "$tree/bin/busybox"
cp "$program" "$tree/bin/guest_test"
cp "$lspci" "$tree/bin/lspci"
for library in "${libraries[@]}"; do
  mkdir -p "$tree$(dirname "$library")"
  cp -L "$library" "$tree$library"
done
for applet in sh dmesg reboot poweroff mount cat ls; do ln -s busybox "$tree/bin/$applet"; done
# Only the names that such a guest can have on its bus: Intel, QEMU, Amazon, and the classes.
[[ ! -e $file_ids ]] ||
  awk '/^[0-9a-fC]/ { keep = /^(1234|1af4|1b36|1d0f|8086|C )/ } keep' "$file_ids" \
    > "$tree/usr/share/misc/pci.ids"
chmod 755 "$tree/init"
(cd "$tree" && find . -print0 | sort -z | cpio --quiet -0 -o -H newc --owner 0:0 --reproducible) |
  gzip -1n > "$work/initramfs.cpio.gz"
mv "$work/initramfs.cpio.gz" "$out/initramfs.cpio.gz"
echo "$inputs" > "$out/initramfs.from"
say "made $out/initramfs.cpio.gz"
