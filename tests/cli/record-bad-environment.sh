OPGAP_ALLOC=$(printf 'e\033[31m\nvents') opgap record -- echo must not run
echo $?
OPGAP_BUFFER=1 OPGAP_DELAY=x opgap record --delay 0 -- echo must not run
echo $?
OPGAP_ALLOC=x OPGAP_DELAY=x OPGAP_LOG=x opgap record -- echo must not run
