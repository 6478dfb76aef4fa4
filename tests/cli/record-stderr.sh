# The line of the tracer's thread on the program's standard error: it overwrites nothing in a file that is not appended
# to, reaches a socket, and neither waits for a pipe that is full nor raises the signal of one that is closed.
show()
{
  sed -e 's/^\(opgap: [^ ]*\[\)[0-9]*\]/\1PID]/' -e '/^opgap: 1 process traced/d'
}
record()
{
  name=$1
  shift
  "$@" timeout 120 opgap record --max-size 16K --out "$name.opgap" -- "$PROGRAMS/cli-stderr" "$name"
  echo "status $?"
}
for name in file socket full closed alone; do
  echo "# $name"
  record $name 2>$name.err | show
  show <$name.err
done
# Linux before 5.6, and containers: told when the program ends.
echo '# file, no pidfd_getfd'
record late "$PROGRAMS/cli-stderr" deny 2>denied | show
show <denied
echo '# appended, no pidfd_getfd'
rm -r file.opgap
record file "$PROGRAMS/cli-stderr" deny 2>>appended | show
show <appended
