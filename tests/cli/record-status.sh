opgap record --log quiet --out a.opgap -- sh -c 'exit 7'
echo $?
opgap record --log quiet --out b.opgap -- sh -c 'kill -KILL $$'
echo $?
opgap record --log quiet --out c.opgap -- sh -c 'kill -TERM $$'
echo $?
ls a.opgap b.opgap c.opgap | grep -c '\.opgt$'
