# sh, a forked subshell, and two programs that sh starts, one of which does nothing that could be recorded.
for children in none fork all; do
  opgap record --children $children --out $children.opgap -- sh -c '(exit 0); /bin/true; cat /dev/null; exit 2'
  echo $?
done
