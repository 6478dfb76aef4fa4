# Whatever would end record is passed on to the program, which decides; record waits for it and exits as it exits.
# The sender is a subshell: a process other than the program.
for signal in TERM HUP INT QUIT USR1 USR2 ALRM VTALRM PROF PIPE IO PWR XCPU XFSZ ABRT SEGV SYS WINCH CONT 34 50 64; do
  opgap record --log quiet -- sh -c "trap 'echo got $signal; exit 9' $signal; (kill -$signal \$PPID); while :; do sleep 0.01; done"
  echo $?
done
# A program that does not handle it dies of it.
opgap record --log quiet -- sh -c '(kill -USR1 $PPID); sleep 10; echo must not live on'
echo $?
# What the program sends to its own group it gets once; what it sends to its parent, not at all.
for target in 0 '$PPID'; do
  setsid --wait opgap record --log quiet -- \
    sh -c "n=0; trap 'n=\$((n + 1))' USR1; kill -USR1 $target; sleep 0.2; echo got \$n; exit 5"
  echo $?
done
# A timer set before record was started was meant for the program, which handles it long before.
perl -e 'alarm 3; exec @ARGV' opgap record --log quiet -- sh -c 'trap "echo rang; exit 4" ALRM; while :; do sleep 0.01; done'
echo $?
# Ignored stays ignored.
nohup opgap record --log quiet -- sh -c '(kill -HUP $PPID); kill -HUP $$; sleep 0.1; exit 6' 2>/dev/null
echo $?
