# SIGTERM and SIGHUP are passed on; SIGINT and SIGQUIT are the program's business.
for signal in TERM HUP; do
  opgap record --log quiet -- sh -c "trap 'echo got $signal; exit 9' $signal; kill -$signal \$PPID; while :; do sleep 0.01; done"
  echo $?
done
for signal in INT QUIT; do
  opgap record --log quiet -- sh -c "kill -$signal \$PPID; sleep 0.1; echo still here; exit 5"
  echo $?
done
