# Runs with LD_PRELOAD alone into one folder: nothing is said in the program, and a report says what it takes them for.
# Ranks are meant to share one, and so are the programs that one program starts.
tracer=$(dirname "$(command -v opgap)")/libopgap.so
notice() {
  opgap report "$1" | grep -E '^ *(processes|notice)'
}
for rank in "" 0 1 ""; do
  env ${rank:+RANK=$rank} OPGAP_OUT=t.opgap LD_PRELOAD="$tracer" sh -c 'exit 0'
  notice t.opgap
done
OPGAP_OUT=one.opgap LD_PRELOAD=$tracer sh -c 'cat /dev/null; cat /dev/null; exit 0'
notice one.opgap
