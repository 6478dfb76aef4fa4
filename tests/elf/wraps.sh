# The tracer's own code, zstd included, must not call a hook by its name: such a call would be counted as the program's.
# Every hook that an object outside src/hooks refers to is in wrap.opts.
set -eu
source=$1
names=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$names" | sort -u > "$folder/hooks"
for object in $(echo "$@" | tr ';' ' ') "$ZSTD"; do
  case $object in */src/hooks/*) continue ;; esac
  nm -u "$object" 2> /dev/null | awk '$1 == "U" {print $2}'
done | sort -u > "$folder/used"
comm -12 "$folder/hooks" "$folder/used" > "$folder/called"
sed 's/^--wrap=//' "$source/src/hooks/wrap.opts" | sort -u > "$folder/wrapped"
missing=$(comm -23 "$folder/called" "$folder/wrapped")
if [ -n "$missing" ]; then
  echo "called by name, not in src/hooks/wrap.opts: $missing"
  exit 1
fi
grep -qx memcpy "$folder/called" # the test sees something
