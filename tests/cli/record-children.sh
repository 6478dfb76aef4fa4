# sh, a forked subshell, and two programs that sh starts.
for children in none fork all; do
  opgap record --children $children --out $children.opgap -- sh -c '(exit 0); /bin/true; /bin/true; exit 2'
  echo $?
done
