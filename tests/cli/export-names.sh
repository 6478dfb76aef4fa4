# Without -o the file has the trace's name and stands in this folder; the newest trace is taken where none is named.
mkdir traces
OPGAP_OUT=traces/first.opgap opgap record -- true
for format in kineto perfetto chrome speedscope collapsed csv sqlite; do
  opgap export --to $format traces/first.opgap 2>/dev/null || echo "$format: $?"
done
opgap record -- true
opgap export --to csv 2>/dev/null
ls | sed 's/-DATE.*//; s/^\(opgap-true\)-.*\(\.[a-z]*\)$/\1\2/'
opgap export --to kineto -o folder/ traces/first.opgap 2>/dev/null
ls folder | sed 's/^.*_[0-9]*\.[0-9]*\././'
opgap export --to csv -o - traces/first.opgap | head -n 1 | tr -d '\r'
