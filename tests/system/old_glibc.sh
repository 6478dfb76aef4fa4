#!/bin/sh
# shellcheck disable=SC2016 # programs for other shells
# Runs the tracer as it was built here in the root of an older Debian with that system's own programs.
#
#   tests/system/old_glibc.sh [BUILD]      (default: build-release; as root; some minutes and 300 MB the first time)
#
# Takes Debian 10 (glibc 2.28, the floor that tests/elf holds) if the mirror still has it, else Debian 11 (2.31), and says
# which it was.  Each program runs without and with the tracer and must print and end the same; the traces are read by
# the opgap of the build.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build-release}" && pwd)
. "$root/tools/packages.sh"

[ "$(id -u)" -eq 0 ] || die "only root can make and enter a root folder"
# mounts of our own, so that they end with us
if [ -z "${OPGAP_OWN_MOUNTS-}" ]; then
  OPGAP_OWN_MOUNTS=1 exec unshare -m "$0" "$build"
fi
unset OPGAP_OWN_MOUNTS # it is no setting of the tracer's
command -v debootstrap >/dev/null || install_packages debootstrap
mirror=$(debian_mirror)

system=""
for suite in buster bullseye; do
  system=$CACHE/root-$suite
  [ ! -e "$system/complete" ] || break
  if [ -n "$mirror" ] && curl -sfI "$mirror/dists/$suite/Release" >/dev/null; then
    rm -rf "$system"
    mkdir -p "$CACHE"
    say "making $system"
    debootstrap --variant=minbase --include=python3,perl,procps "$suite" "$system" "$mirror" >"$CACHE/debootstrap.log" ||
      die "debootstrap failed: $(tail -n 1 "$CACHE/debootstrap.log")"
    touch "$system/complete"
    break
  fi
  say "$suite is not on ${mirror:-any mirror of Debian that apt knows}"
done
[ -e "$system/complete" ] || die "no older Debian can be had"

mkdir -p "$system/opgap"
cp "$build/libopgap.so" "$root/tests/transparency/programs.py" "$system/opgap/"
for part in proc dev dev/shm sys; do
  mount --rbind "/$part" "$system/$part"
done
say "$(chroot "$system" sh -c '. /etc/os-release; echo "$PRETTY_NAME, $(ldd --version | head -n 1), $(python3 --version)"')"

failed=0
# name, then a command
try()
{
  name=$1
  shift
  rm -rf "$system/opgap/t.opgap"
  plain=0 traced=0
  chroot "$system" "$@" >"$system/opgap/plain" 2>&1 </dev/null || plain=$?
  chroot "$system" env LD_PRELOAD=/opgap/libopgap.so OPGAP_OUT=/opgap/t.opgap "$@" >"$system/opgap/traced" 2>&1 \
    </dev/null || traced=$?
  result=same
  if [ "$plain" -ne "$traced" ] || ! cmp -s "$system/opgap/plain" "$system/opgap/traced"; then
    result=differs
    failed=1
  fi
  "$build/opgap" info "$system/opgap/t.opgap" >"$system/opgap/info" || failed=1
  printf '%-10s %-8s exit status %3d  %s\n' "$name" "$result" "$traced" "$(awk '
    $1 == "records" { gsub(",", ""); n++; records += $2; lost += $4 }
    END { printf "%d processes, %d records, %d lost", n, records, lost }' "$system/opgap/info")"
  [ "$result" = same ] || diff "$system/opgap/plain" "$system/opgap/traced" | head -n 20
  grep -q '^process' "$system/opgap/info" || failed=1
}

try python python3 /opgap/programs.py
# sort is not linked with libdl, which was a library of its own
try sort sort -r /etc/passwd
try sh sh -c 'for i in 1 2 3 4 5; do ls -l /etc | wc -l; done; cat /etc/passwd | sort | md5sum; exit 3'
try perl perl -e 'my %h; $h{$_ % 7}++ for 1 .. 100000; print join(",", map { $h{$_} } sort keys %h), "\n";
  for (1 .. 5) { if (!fork) { exit $_ } wait; print $? >> 8, "\n" } kill "TERM", $$'
try find find /usr/share/doc -name 'c*' -newermt 2000-01-01
try tar tar -cf /dev/null --exclude=/opgap /usr/lib/python3
exit "$failed"
