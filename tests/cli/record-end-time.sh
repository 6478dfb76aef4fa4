# A process that could not write its end itself lasted as long as it ran, however late its ring is added.
if [ "$(id -u)" -ne 0 ]; then
  echo 'skipped: only root has rights to give up'
  exit 77
fi
tracer=$(dirname "$(command -v opgap)")/libopgap.so
for how in setuid filter; do
  before=$(date +%s%N)
  LD_PRELOAD=$tracer OPGAP_LOG=quiet OPGAP_OUT=$how.opgap "$PROGRAMS/cli-gives-up" $how
  after=$(date +%s%N)
  sleep 2
  opgap report $how.opgap >/dev/null
  opgap info $how.opgap >info
  sed -n 's/^ *ended  */ended /p' info
  duration=$(sed -n 's/^ *duration *\([0-9]*\) ns/\1/p' info)
  if [ "$duration" -gt 0 ] && [ "$duration" -le $((after - before)) ]; then
    echo "within its life"
  else
    echo "$duration ns of $((after - before))"
  fi
done
