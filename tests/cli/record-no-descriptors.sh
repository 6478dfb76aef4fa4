# A child that may open no file is not traced and says so once; it runs, and its parent is traced.
opgap record --log warn --out t.opgap -- /usr/bin/python3 - <<'END'
import os
import resource

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
if os.fork() == 0:
    os.write(1, b"the child runs\n")
    os._exit(0)
os.wait()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
END
echo $?
opgap info t.opgap | grep -E 'ended  ' | sed 's/^ *//'

# One descriptor beside the three is what the loader needs; record itself holds none, and each process is described.
(
  exec 3>&-
  # shellcheck disable=SC3045 # dash and bash have it
  ulimit -n 4
  opgap record --log quiet --out four.opgap -- sh -c 'ulimit -n; cat /dev/null; exit 0'
  echo $?
)
opgap info four.opgap | sed -n 's/^process .* on [^:]*: //p'
