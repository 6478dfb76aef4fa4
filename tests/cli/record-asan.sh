# A program with AddressSanitizer's runtime as a library runs, is counted, and its bugs are still found.
if [ ! -x "$PROGRAMS/cli-asan" ]; then
  echo "skipped: this compiler does not link AddressSanitizer as a library"
  exit 77
fi
export ASAN_OPTIONS=detect_leaks=0:exitcode=42
opgap record --log quiet --out good.opgap -- "$PROGRAMS/cli-asan"
echo "exit $?"
opgap report --format csv --table calls good.opgap | grep '^malloc,' | cut -d, -f 4-6
opgap record --log quiet --out bad.opgap -- "$PROGRAMS/cli-asan" overflow 2>bad
echo "exit $?"
grep -o 'AddressSanitizer: heap-buffer-overflow' bad | head -n 1
# Preloaded by the user into a program that is not linked against it.
LD_PRELOAD=$(ldd "$PROGRAMS/cli-asan" | sed -n 's/.*libasan.* => \(.*\) (.*/\1/p') \
  opgap record --log quiet --out pre.opgap -- true
echo "exit $?"
# Others keep their environment.
opgap record --log quiet --out other.opgap -- sh -c 'echo $ASAN_OPTIONS'
