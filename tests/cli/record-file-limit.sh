# A limit of file sizes is told as what it is: by the process whose trace it cuts, by record where nothing can be written,
# and by a report.
limited() {
  /usr/bin/python3 -c 'import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
os.execvp(sys.argv[2], sys.argv[2:])' "$@"
}
cat >opens.py <<'END'
for i in range(100000):
    open("/dev/null").close()
print("done")
END
limited 1024 opgap record --out none.opgap -- /usr/bin/python3 opens.py
echo $?
ls -d none.opgap 2>/dev/null
limited 40960 opgap record --out cut.opgap -- /usr/bin/python3 opens.py
echo $?
opgap report cut.opgap 2>/dev/null | grep -o 'recording stopped early.*'
