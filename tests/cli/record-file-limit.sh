# A limit of file sizes is told as what it is: by the process whose trace it cuts, by record where nothing can be written,
# and by a report.
cat >opens.py <<'END'
for i in range(100000):
    open("/dev/null").close()
print("done")
END
prlimit --fsize=1024 opgap record --out none.opgap -- /usr/bin/python3 opens.py
echo $?
ls -d none.opgap 2>/dev/null
prlimit --fsize=40960 opgap record --out cut.opgap -- /usr/bin/python3 opens.py
echo $?
opgap report cut.opgap 2>/dev/null | grep -o 'recording stopped early.*'
