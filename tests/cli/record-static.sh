opgap record -- "$PROGRAMS/cli-static"
echo $?
ls
