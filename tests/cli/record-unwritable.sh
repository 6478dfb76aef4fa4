# The program runs all the same, and its status is kept.
echo >file
opgap record --out file -- sh -c 'echo ran; exit 3'
echo $?
opgap record --out file/x.opgap -- sh -c 'echo ran; exit 3'
echo $?
opgap record --out missing/x.opgap -- sh -c 'echo ran; exit 3'
