# A size in which not even the beginning of a trace fits: that is said, and there is no trace.
opgap record --max-size 1 --out t.opgap -- sh -c 'exit 3'
echo $?
ls t.opgap 2>/dev/null
