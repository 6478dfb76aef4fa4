# Options reach the program as settings, and the trace folder as an absolute path.
OPGAP_ALLOC=events OPGAP_MIN_COPY=1K opgap record --log quiet --min-copy=2K --out t.opgap -- \
  sh -c 'echo $OPGAP_ALLOC $OPGAP_MIN_COPY $OPGAP_OUT $OPGAP_SESSION'
OPGAP_SESSION=/tmp opgap record --log quiet --out u.opgap -- sh -c 'echo $OPGAP_SESSION'
opgap record --log quiet --stacks both --out v.opgap -- true
