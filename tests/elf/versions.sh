# shellcheck shell=sh
# Where libc has several functions of a hook's name, one a version, the library exports each of these versions.  The
# exception is memcpy: the hook's memmove does what both versions of it promise.
set -eu
libc=$(ldd "$1" | awk '$1 ~ /^libc\.so/ { print $3 }')
[ -n "$libc" ]
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$2" | grep -vx memcpy > "$folder/hooks"
nm -D --defined-only "$1" | awk '{ sub(/@@/, "@", $3); print $3 }' > "$folder/exported"
nm -D --defined-only "$libc" | awk -v hooks="$folder/hooks" '
  BEGIN { while ((getline name < hooks) > 0) hooked[name] = 1 }
  { split($3, part, /@+/) }
  part[1] in hooked {
    sub(/@@/, "@", $3)
    symbols[part[1]] = symbols[part[1]] " " $3
    if (part[1] in address && address[part[1]] != $1)
      several[part[1]] = 1
    address[part[1]] = $1
  }
  END {
    for (name in several) {
      count = split(symbols[name], list, " ")
      for (i = 1; i <= count; i++)
        print list[i]
    }
  }' | sort -u > "$folder/wanted"
missing=$(grep -vxF -f "$folder/exported" "$folder/wanted" || true)
if [ -n "$missing" ]; then
  echo "not exported: $missing"
  exit 1
fi
if [ "$(uname -m)" = x86_64 ]; then
  grep -qx 'pthread_cond_wait@GLIBC_2.2.5' "$folder/wanted" # the look at libc itself works
fi
