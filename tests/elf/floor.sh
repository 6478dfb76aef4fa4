# No symbol newer than glibc 2.28 is asked for.
set -eu
newer=$(nm -D --undefined-only "$1" | grep -oE '[A-Za-z_0-9]+@GLIBC_[0-9.]+' |
  awk -F'@GLIBC_' '{split($2, v, "."); if (v[1] > 2 || (v[1] == 2 && v[2] > 28)) print}')
if [ -n "$newer" ]; then
  echo "newer than GLIBC_2.28: $newer"
  exit 1
fi
nm -D --undefined-only "$1" | grep -q '@GLIBC_2'
