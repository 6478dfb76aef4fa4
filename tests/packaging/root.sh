#!/bin/sh
# Installs the packages into a fresh Debian and uses them there.  Not part of ctest: it downloads some 60 MB.
# As root:  sh tests/packaging/root.sh [SUITE [MIRROR]]       default: bookworm, apt's own mirror
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
suite=${1-bookworm}
. "$source/tests/packaging/common.sh"
mirror=${2-$(. "$source/tools/packages.sh" && debian_mirror)}
[ "$(id -u)" -eq 0 ] || fail "must run as root"
command -v debootstrap >/dev/null || fail "needs debootstrap"
work=$(mktemp -d)
trap 'umount "$work/root/proc" "$work/root/dev/shm" 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
cd "$work"

sh "$source/tools/package.sh" --deb --archive packages >log 2>&1 || fail "$(cat log)"
debootstrap --variant=minbase "$suite" root "$mirror" >log 2>&1 || fail "$(tail log)"
cp packages/* root/tmp
mount -t proc proc root/proc
mkdir -p root/dev/shm
mount -t tmpfs tmpfs root/dev/shm
inside()
{
  chroot root env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive HOME=/root "$@"
}
inside sh -c 'apt-get install -y --no-install-recommends /tmp/opgap_*.deb /tmp/opgap-dev_*.deb' >log 2>&1 ||
  fail "$(cat log)"

# $1: the program
use()
{
  inside sh -c "cd /tmp && $1 record --log quiet --out t.opgap -- sh -c 'exit 3'" 2>err && code=0 || code=$?
  same "$1: record's exit status" 3 "$code"
  inside sh -c "cd /tmp && $1 report t.opgap" | grep -q 'command    sh -c exit 3' || fail "$1: no report"
  inside "$1" doctor >doctor || fail "$(cat doctor)"
  grep -q '^ok  *preload' doctor || fail "$(cat doctor)"
  inside rm -rf /tmp/t.opgap
}
use opgap
inside dpkg -L opgap | grep -q /usr/share/man/man1/opgap-record.1.gz
inside sh -c 'apt-get remove -y opgap opgap-dev' >log 2>&1 || fail "$(cat log)"
same "left behind" "" "$(inside sh -c 'ls -d /usr/bin/opgap /usr/lib/libopgap.so /usr/include/opgap 2>/dev/null' || true)"
inside sh -c 'mkdir /opt/opgap && tar xzf /tmp/opgap-*.tar.gz -C /opt/opgap --strip-components=1'
use /opt/opgap/bin/opgap
say=$(inside cat /etc/debian_version)
echo "installed and used in Debian $say: the packages and the archive"
