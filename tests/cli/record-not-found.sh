opgap record -- no-such-program
echo $?
opgap record -- ./no-such-program
echo $?
opgap record -- ''
echo $?
ls
