# Without steps there is nothing to compare per step: one line says so, and the totals of whole runs remain.
opgap record --log quiet --out a.opgap -- true
opgap record --log quiet --out b.opgap -- true
opgap diff a.opgap b.opgap | grep -c "^not every run has steps: nothing is compared per step, only the totals of whole runs$"
opgap diff a.opgap b.opgap | grep -E "^(Per step|Whole run)" | cut -d' ' -f1,2
opgap diff --format csv a.opgap b.opgap | cut -d, -f1 | sort -u
# Nor is there where only one of the two has them.
"$PROGRAMS/../bench/gen" --records 20000 --mix ops steps.opgap >/dev/null
opgap diff steps.opgap a.opgap | sed -n '1s/.*opgap, \(.*\) (.*/\1/p'
opgap diff --format csv steps.opgap a.opgap | cut -d, -f1,2 | uniq
