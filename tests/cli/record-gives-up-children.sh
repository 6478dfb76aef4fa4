# What a program starts after it gave up what it takes to write to the trace runs as without the tracer, and silently:
# the cause is told once.  The trace says what is missing.
if [ "$(id -u)" -ne 0 ]; then
  echo 'skipped: only root has rights to give up'
  exit 77
fi
tracer=$(dirname "$(command -v opgap)")/libopgap.so
show()
{
  opgap report "$1" | sed -n 's/^  untraced *pid [0-9]* //p; s/^  untraced *\([0-9]*\) .* (\([^()]*\)), .* pid [0-9]*/\1 \2/p
    /rights, root folder/!{/^  notice/s/^ *//p}'
}
for how in setuid filter; do
  echo "# $how"
  opgap record --out $how.opgap -- "$PROGRAMS/cli-gives-up" $how children
  show $how.opgap
  LD_PRELOAD=$tracer OPGAP_OUT=preload-$how.opgap "$PROGRAMS/cli-gives-up" $how children
  show preload-$how.opgap
done
