# Two runs with LD_PRELOAD alone into one folder: the second one says what comes of it; ranks are meant to share one.
tracer=$(dirname "$(command -v opgap)")/libopgap.so
export OPGAP_OUT=t.opgap
for rank in "" "" 0 1; do
  env ${rank:+RANK=$rank} LD_PRELOAD="$tracer" sh -c 'exit 0'
done
opgap report t.opgap | grep -E '^ *(processes|notice)' | sed 's/HERE/here/'
