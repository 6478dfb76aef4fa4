# Why a program is not traced is said once: by the program where it knows, else by record.
opgap record --max-size 1 --out one.opgap -- /bin/true
opgap record --max-size 5K --out five.opgap -- /bin/true
prlimit --as=40000000 opgap record --out memory.opgap -- /bin/true
mkdir before
opgap record --max-size 1 --out before -- /bin/true
ls -A . before
long=$PWD
while [ ${#long} -lt 900 ]; do
  long=$long/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
done
mkdir -p "$long"
while [ ${#long} -lt 1018 ]; do
  long=${long}b
done
opgap record --out "$long" -- /bin/true 2>errors
sed 's#/[^ ]*a/[ab]*#LONG#' errors
