# Two runs do not mix; ranks of one run share their folder.
opgap record --log quiet -o t.opgap -- true
opgap record --out t.opgap -- echo must not run
echo $?
RANK=1 opgap record --out t.opgap -- echo rank 1
