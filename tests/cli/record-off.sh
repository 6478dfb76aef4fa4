opgap record --off 1 -- sh -c 'echo $LD_PRELOAD; exit 4'
echo $?
ls
