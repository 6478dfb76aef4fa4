#!/bin/sh
# How the tracer opens its own files, whatever the umask: created with mode 0600 (0700 for the folder), O_EXCL,
# O_NOFOLLOW and O_CLOEXEC, reopened with O_NOFOLLOW and O_CLOEXEC; and that it does nothing at all in a program that
# runs with the rights of somebody else.
#
#   files.sh LIBOPGAP PROGRAM     PROGRAM: one with threads, so that the flusher runs, too
set -eu
tracer=$1
program=$2
command -v strace >/dev/null || {
  echo "skipped: strace is not installed"
  exit 77
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
failed=0

fail()
{
  echo "$*"
  failed=1
}

umask 0
strace -f -q -o "$folder/calls" -e trace=open,openat,creat,mkdir,mkdirat \
  env LD_PRELOAD="$tracer" OPGAP_OUT="$folder/t.opgap" "$program" >/dev/null 2>"$folder/strace" || {
  echo "skipped: strace cannot run here: $(head -n 1 "$folder/strace")"
  exit 77
}
grep -E '"[^"]*(\.opgt|/opgap-[^"/]*\.ring)"' "$folder/calls" >"$folder/own" || fail "the tracer opened no file of its own"
grep 'O_CREAT' "$folder/own" >"$folder/created" || fail "the tracer created no file"
for flag in O_EXCL O_NOFOLLOW O_CLOEXEC '0600)'; do
  if grep -vF "$flag" "$folder/created"; then
    fail "created without $flag"
  fi
done
for flag in O_NOFOLLOW O_CLOEXEC; do
  if grep -vF "$flag" "$folder/own"; then
    fail "opened without $flag"
  fi
done
grep -q 'mkdir.*t\.opgap", 0700) *= 0' "$folder/calls" || fail "the folder was not made with mode 0700"
[ "$(stat -c %a "$folder/t.opgap")" = 700 ] || fail "the folder's mode is $(stat -c %a "$folder/t.opgap")"
for file in "$folder"/t.opgap/*; do
  [ "$(stat -c %a "$file")" = 600 ] || fail "the mode of $file is $(stat -c %a "$file")"
done

# A symbolic link in the place of the folder's files is not followed: the first name of a process can be foreseen, its
# second one is taken.  Here for the folder itself: a link to nowhere is an error, and the program runs.
ln -s "$folder/elsewhere" "$folder/link.opgap"
LD_PRELOAD=$tracer OPGAP_OUT=$folder/link.opgap "$program" >/dev/null 2>&1 || fail "the program did not run"
[ ! -e "$folder/elsewhere" ] || fail "a symbolic link was followed"

# Secure execution: set-user-ID, run by another user.  The loader takes only a library that is set-user-ID itself and
# lies in a standard folder, so these are laid over the real ones, in mounts of our own.
# shellcheck disable=SC2317 # a copy of it is run by a shell with mounts of its own
secure()
{
  libraries=$(dirname "$(ldd /bin/cat | awk '$1 ~ /^libc\.so/ { print $3 }')")
  mount -t tmpfs none "$folder/over" && mkdir "$folder/over/upper" "$folder/over/work" &&
    mount -t overlay none -o "lowerdir=$libraries,upperdir=$folder/over/upper,workdir=$folder/over/work" "$libraries" ||
    return 77
  cp "$tracer" "$libraries/libopgap-secure.so"
  chmod 4755 "$libraries/libopgap-secure.so"
  cp /bin/cat "$folder/over/cat"
  chmod 4755 "$folder/over/cat"
  chmod 755 "$folder" "$folder/over"
  mkdir -m 777 "$folder/over/out"
  setpriv --reuid 65534 --clear-groups env LD_PRELOAD=libopgap-secure.so OPGAP_OUT="$folder/over/out/t.opgap" \
    OPGAP_BUFFER=nonsense "$folder/over/cat" /proc/self/maps >"$folder/maps" 2>"$folder/said"
  grep -q libopgap-secure "$folder/maps" || return 78
  [ ! -e "$folder/over/out/t.opgap" ] && [ ! -s "$folder/said" ]
}
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
  mkdir "$folder/over"
  status=0
  export tracer folder
  unshare -m sh -c "$(sed -n '/^secure()/,/^}/p' "$0")
    secure" >"$folder/secure" 2>&1 || status=$?
  case $status in
  0) ;;
  77) echo "left out: secure execution (no overlay can be mounted here)" ;;
  78) echo "left out: secure execution (the loader did not take the library)" ;;
  *) fail "in secure execution the tracer did something: $(cat "$folder/secure" "$folder/said")" ;;
  esac
else
  echo "left out: secure execution (only root can make such a program)"
fi
exit "$failed"
