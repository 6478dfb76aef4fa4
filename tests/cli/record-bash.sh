# bash has a setenv of its own and forks for each program.  Its children are no first processes of the trace, and leave
# nothing: they copy descriptors and execute a program that makes no hooked call.
command -v bash >/dev/null || {
  echo "skipped: bash is not installed"
  exit 77
}
opgap record --out t.opgap -- bash -c 'for i in 1 2 3; do /bin/true && :; done; echo "$OPGAP_SESSION"'
