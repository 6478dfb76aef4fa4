# Each bad value is named, with what is allowed; nothing is written.
try()
{
  opgap export "$@"
  echo $?
}
OPGAP_OUT=run.opgap opgap record -- true
try run.opgap
try --to pdf run.opgap
try --to csv --steps 3:1 run.opgap
try --to csv --from-time 5 run.opgap
try --to csv --from-time 2s --to-time 1s run.opgap
try --to csv --min-duration -1us run.opgap
try --to kineto --for everyone run.opgap
try --to kineto --max-size big run.opgap
try --to csv --for hta run.opgap
try --to perfetto --max-size 10 run.opgap
try --to kineto --max-size 10 -o - run.opgap
try --to sqlite -o - run.opgap
try --to sqlite -o run.sqlite.gz run.opgap
try --to csv -o
try --to csv --frmo 1s run.opgap
try --to csv run.opgap other.opgap
try --to csv missing.opgap
try --to csv --process nobody run.opgap
try --to csv --steps 0:1 run.opgap
ls
