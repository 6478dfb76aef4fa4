# --limit holds for the lists of gaps as well, which keep the 50 longest without it.
opgap record --out t.opgap -- perl -e 'select(undef, undef, undef, 0.0015) for 1 .. 60' 2>/dev/null
count()
{
  rows=$(opgap report --format csv --table gaps "$@" | sed 1d | wc -l)
  [ "$rows" -ge 60 ] && rows=all # others may come to the 60
  echo "$* $rows"
}
count
count --limit 55
count --limit 0
opgap report --summary-out t.json t.opgap
count t.json
opgap report --limit 0 --summary-out all.json t.opgap
count --limit 0 all.json
