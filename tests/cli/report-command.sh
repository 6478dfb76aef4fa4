# Of a program in an argument the head has the first line.
opgap record --log quiet --out t.opgap -- sh -c 'true 1
true 2'
opgap report t.opgap | grep '^ *command'
opgap record --log quiet --out u.opgap -- sh -c 'true 1'
opgap report u.opgap | grep '^ *command'
