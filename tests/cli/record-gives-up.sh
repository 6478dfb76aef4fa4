# A program that gives up its rights or its root after it was recorded: nothing is lost, neither of before nor of after,
# whoever is outside adds it; and the reason that is told is the right one.
if [ "$(id -u)" -ne 0 ]; then
  echo 'skipped: only root has rights, and a root folder, to give up'
  exit 77
fi
tracer=$(dirname "$(command -v opgap)")/libopgap.so
mkdir root
show() {
  opgap report "$1" | sed -n 's/^  records *[0-9,]*, \(.* lost\), .*/\1/p; /room on the disk/p'
  opgap report --format csv "$1" | sed -n 's/^\(stat,call,program,[0-9]*\),.*/\1/p'
  opgap info "$1" | sed -n 's/^ *ended  */ended /p'
}
for how in setuid chroot; do
  echo "# $how"
  opgap record --out $how.opgap -- "$PROGRAMS/cli-gives-up" $how root
  show $how.opgap
  LD_PRELOAD=$tracer OPGAP_OUT=preload-$how.opgap "$PROGRAMS/cli-gives-up" $how root
  show preload-$how.opgap
done
