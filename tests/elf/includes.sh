# Who may include whom: hooks -> record -> format; gpu and frameworks -> record; analysis -> format; output -> analysis;
# tools -> output.  Each line: a part, then the parts it may include besides itself.
set -eu
cd "$1"
bad=0
check()
{
  part=$1
  allowed="$2"
  found=$(grep -rnE '^#include "' "src/$part" --include=*.c --include=*.h --include=*.def --include=*.S |
    grep -vE "#include \"($allowed)/" || true)
  if [ -n "$found" ]; then
    echo "src/$part may include $allowed only:"
    echo "$found"
    bad=1
  fi
}
check format 'format'
check record 'record|format'
check hooks 'hooks|record|format'
check gpu 'gpu|record|format'
check frameworks 'frameworks|record|format|opgap'
check analysis 'analysis|format'
check output 'output|analysis|format'
# cupti.h is seen by src/gpu alone
if grep -rlE '#include [<"]cupti' src tools --include=*.c --include=*.h | grep -v '^src/gpu/'; then
  bad=1
fi
exit $bad
