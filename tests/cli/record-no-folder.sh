# With LD_PRELOAD alone, a trace folder that cannot be made: one line in words, and the program runs.
tracer=$(dirname "$(command -v opgap)")/libopgap.so
echo >file
long=$(printf '%300s' '' | tr ' ' x)
for out in missing/x.opgap file/x.opgap "$long"; do
  OPGAP_OUT=$out LD_PRELOAD=$tracer sh -c 'echo ran; exit 3' 2>&1 | sed "s|$PWD/||; s/x\{300\}/LONG/"
done
