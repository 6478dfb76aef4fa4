# A file that became 100 GB longer, or has such a gap in it, without a byte on the disk is read at once: its holes are not
# searched for chunks, and the reports say how much that is.  What lies behind them is found.
opgap record --log quiet --out t.opgap -- /usr/bin/python3 "$(dirname "$0")/stats.py"
original=$(echo t.opgap/*.opgt)
/usr/bin/python3 - "$original" <<'END' || exit $?
import errno, os, sys
HOLE = 100 << 30
whole = open(sys.argv[1], "rb").read()
half = len(whole) // 2
for name, parts in ("tail.opgt", [(0, whole)]), ("gap.opgt", [(0, whole[:half]), (half + HOLE, whole[half:])]):
    with open(name, "wb") as file:
        for at, part in parts:
            file.seek(at)
            file.write(part)
        file.truncate(len(whole) + HOLE)
        file.flush()
        try:
            tells = os.lseek(file.fileno(), half + (1 << 30), os.SEEK_DATA) > half + HOLE // 2
        except OSError as error:
            tells = error.errno == errno.ENXIO
        if not tells:
            print("skipped: this file system does not tell of holes")
            sys.exit(77)
        start = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        end = len(whole) + HOLE
        if name == "gap.opgt":
            end = os.lseek(file.fileno(), start, os.SEEK_DATA)
    print(end - start, file=open(name + ".hole", "w"))
END
for name in tail gap; do
  opgap report --format json $name.opgt >report.json 2>/dev/null
  echo $?
  grep -o "of which $(cat $name.opgt.hole) are holes of the file and were skipped" report.json | sed 's/[0-9][0-9]*/ALL/'
  opgap info $name.opgt 2>/dev/null | grep -E '^ *ended  '
  opgap info $name.opgt 2>/dev/null | grep -c " of which $(cat $name.opgt.hole) are holes"
done
