opgap record --hoks io -- echo must not run
echo $?
opgap record -z -- echo must not run
