echo 'echo must not run' >plain
mkdir folder
printf '#!/no/such/interpreter\n' >script
chmod +x script
for program in ./plain ./folder ./script "$PROGRAMS/cli-musl"; do
  opgap record --log quiet -- "$program"
  echo $?
done
ls
