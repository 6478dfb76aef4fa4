# Only libraries of libc's family are needed, no run path is set, and the stack is not executable.
set -eu
if readelf -d "$1" | grep NEEDED | grep -vE '\[(libc|libpthread|libdl|librt|ld-linux-x86-64|ld-linux-aarch64)\.so'; then
  exit 1
fi
readelf -d "$1" | grep -q 'NEEDED.*libc\.so\.6'
if readelf -d "$1" | grep -E 'R(UN)?PATH|TEXTREL'; then
  exit 1
fi
readelf -lW "$1" | grep 'GNU_STACK' | grep -qv 'E'
# Static thread-local storage is scarce: a few pointers, no more.
tls=$(readelf -lW "$1" | awk '$1 == "TLS" {print $6}')
[ $((tls)) -gt 0 ] && [ $((tls)) -le 128 ]
