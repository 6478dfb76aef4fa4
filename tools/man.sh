#!/bin/sh
# Writes the man pages, opgap.1 and one for each command, from what the program's --help says.  Needs help2man.
# usage: man.sh OPGAP FOLDER
set -eu

opgap=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
folder=$2
version=$("$opgap" --version)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"

# "name summary", one command a line
commands()
{
  "$opgap" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  */\1 /p'
}

# help2man runs one program and names the page after the first word of its usage: it gets a program for each command,
# and the page its own name afterwards.
# name of the page, summary, words before the options
page()
{
  printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$opgap" "${3-}" >"$work/$1"
  chmod +x "$work/$1"
  help2man --no-info --version-string="$version" --manual="opgap" --name="$2" --include="$work/$1.h2m" \
    --output="$work/page" "$work/$1"
  sed -e "s/^\.TH OPGAP /.TH $(echo "$1" | tr '[:lower:]' '[:upper:]') /" \
    -e "/^\.SH NAME/{n;s/^opgap /$1 /;s/^opgap-/opgap\\\\-/}" "$work/page" >"$folder/$1.1"
}

{
  printf '[SEE ALSO]\n'
  commands | sed -e 's/^\([a-z]*\) .*/.BR opgap\\-\1 (1),/' -e '$s/,$//'
} >"$work/opgap.h2m"
page opgap 'where does the time of a training run go?'
commands | while read -r name summary; do
  printf '[SEE ALSO]\n.BR opgap (1)\n' >"$work/opgap-$name.h2m"
  page "opgap-$name" "$summary" "$name"
done
