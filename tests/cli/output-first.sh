# A name that cannot be written is told before the trace is read, which here is none; as a trace, once the name is good.
touch plain
for command in 'report --summary-out' 'html -o' 'export --to chrome -o' 'export --to sqlite -o' 'baseline -o'; do
  for name in nowhere/x plain/x . nowhere/ ''; do
    opgap $command "$name" missing.opgap
    echo "$?"
  done
done
for option in --output --svg; do
  opgap gate -b missing.json $option nowhere/x missing.opgap
  echo "$?"
done
mkdir folder
for name in folder new/ nowhere/new/ plain/; do
  opgap export --to kineto -o $name missing.opgap
  echo "$?"
done
ln -s nowhere/x dangling
for name in good dangling -; do
  opgap report --summary-out $name missing.opgap
  echo "$?"
done
ls
