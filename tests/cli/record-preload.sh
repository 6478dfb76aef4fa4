# The user's own preloaded libraries stay in front; nothing is named twice.
LD_PRELOAD=libm.so.6 opgap record --log quiet -- sh -c 'echo $LD_PRELOAD'
opgap record --log quiet -- sh -c 'echo $LD_PRELOAD'
LD_PRELOAD=$(dirname "$(command -v opgap)")/libopgap.so opgap record --log quiet -- sh -c 'echo $LD_PRELOAD'
