#!/bin/sh
# Writes the man pages, opgap.1 and one for each command, from what the program's --help says.
# usage: man.sh OPGAP FOLDER
set -eu

opgap=$1
folder=$2
version=$("$opgap" --version)
mkdir -p "$folder"

# name, summary; the help text comes in
page()
{
  printf '.TH %s 1 "" "%s" "User Commands"\n' "$(echo "$1" | tr '[:lower:]' '[:upper:]')" "$version"
  printf '.SH NAME\n%s \\- %s\n' "$1" "$2"
  printf '.SH DESCRIPTION\n.nf\n'
  sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
  printf '.fi\n'
  if [ "$1" = opgap ]; then
    printf '.SH SEE ALSO\n'
    commands | sed 's/^\([a-z]*\) .*/.BR opgap\\-\1 (1)/'
  else
    printf '.SH SEE ALSO\n.BR opgap (1)\n'
  fi
}

# "name summary", one command a line
commands()
{
  "$opgap" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  */\1 /p'
}

"$opgap" --help | page opgap 'where does the time of a training run go?' >"$folder/opgap.1"
commands | while read -r name summary; do
  "$opgap" "$name" --help | page "opgap-$name" "$summary" >"$folder/opgap-$name.1"
done
