# README has each command, and each setting with the option and the default that the program has.
readme=$(dirname "$0")/../../README.md
opgap doctor | sed -n 's/^  \(OPGAP_[A-Z_]*\)  *\([^ ]*\)  *default$/\1 \2/p' >settings
wc -l <settings
opgap record --help | sed -n 's/^  --\([a-z-]*\) .*/\1/p' >options
while read -r variable standard; do
  grep -q "^| \`--$(sed -n "$(grep -n "^$variable " settings | cut -d: -f1)p" options)[ \`].* | \`$variable\` |" "$readme" ||
    echo "README does not have $variable with its option"
  case $standard in
  -) ;;
  *) grep -q "| \`$variable\` | \`$standard\` |" "$readme" || echo "README does not have the default $standard of $variable" ;;
  esac
done <settings
grep -c '| `OPGAP_' "$readme"
opgap --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | while read -r command; do
  grep -q "^| \`opgap $command[ \`]" "$readme" || echo "README's table of commands does not have $command"
done
