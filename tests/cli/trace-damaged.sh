# A file that is damaged in several places: one line about it, wherever it is told, and the same exit code; what is
# left is used.
cat >threads.py <<'END'
import threading
import time
for _ in range(8):
    thread = threading.Thread(target=time.sleep, args=(0.002,))
    thread.start()
    thread.join()
END
opgap record --log quiet --out t.opgap -- /usr/bin/python3 threads.py
cat >damage.py <<'END'
import struct
import sys
data = bytearray(open(sys.argv[1], "rb").read())
at, records = 64, []
while at < len(data):
    magic, kind, header, _, _, stored = struct.unpack_from("<IHHIII", data, at)
    assert magic == 0x4843474f
    records += [at + header + stored // 2] if kind == 3 else []
    at += header + stored
for place in records[1:8:2]:
    data[place] ^= 0xff
open(sys.argv[1], "wb").write(data)
END
/usr/bin/python3 damage.py t.opgap/*.opgt
plain() {
  sed 's/t.opgap[^:]*opgt: bytes [0-9]* to [0-9]* and/FILE: bytes A to B and/; s/([0-9]* bytes in all)/(N bytes in all)/'
}
for command in 'report t.opgap' 'report --format json t.opgap' 'report --format csv t.opgap' \
  'report --format markdown t.opgap' 'report --summary-out sum.json t.opgap' 'report sum.json' 'info t.opgap' \
  'info --archive kept.opgap t.opgap' 'export --to csv -o spans.csv t.opgap' 'html -o page.html t.opgap' \
  'top --once t.opgap' 'snapshot t.opgap' 'diff t.opgap t.opgap' 'baseline -o base.json t.opgap'; do
  echo "== $command"
  # shellcheck disable=SC2086 # words
  opgap $command >output 2>errors
  echo $?
  [ "$command" = 'report --format json t.opgap' ] && cp output json
  grep -i '^[ |*-]*damage' output | plain
  plain <errors | grep -v 'spans in\|wrote page'
done
python3 -c 'import json; print(*json.load(open("json"))["trace"]["damage"])' | plain
[ "$(wc -l <spans.csv)" -gt 1 ] && echo spans
