# The zsh completion.  Input: what table.awk wrote.
function quoted(text) { # inside '...'
  gsub(/'/, "'\\''", text)
  return text
}
function plain(text) { # inside [...] or :...: of a specification, within '...'
  gsub(/\\/, "\\\\", text)
  gsub(/:/, "\\:", text)
  gsub(/\[/, "\\[", text)
  gsub(/\]/, "\\]", text)
  return quoted(text)
}
BEGIN {
  FS = "\t"
}
$1 == "option" {
  action = $6 == "<files>" ? "_files" : $6 == "" ? "" : $5 == "LIST" ? "_sequence compadd - " $6 : "(" $6 ")"
  rest = "[" plain($7) "]" ($5 == "" ? "" : ":" plain($5) ":" action) "' \\\n"
  if ($3 == "")
    options[$2] = options[$2] "      '" $4 ($5 == "" ? "" : "=") rest
  else
    options[$2] = options[$2] "      '(" $4 ")" $3 rest "      '(" $3 ")" $4 ($5 == "" ? "" : "=") rest
}
$1 == "command" {
  operand = $3 == "trace" ? "'*:trace:_opgap_traces'" : $3 == "program" ? "'(-)1:program:_command_names -e' '*::argument:_opgap_program'" : ""
  described = described "    '" $2 ":" quoted($4) "'\n"
  cases = cases "  " $2 ")\n    _arguments -s -S \\\n" options[$2] "      " operand "\n    ;;\n"
}
END {
  print "#compdef opgap"
  print "# zsh completion of opgap, made from opgap --help\n"
  print "_opgap_traces()\n{\n  _files -g '*.(opgap|opgt|json)' || _files -/\n}\n"
  print "# the program's own arguments\n_opgap_program()\n{\n  if [[ $words[1] == -- ]]; then\n    shift words\n    ((CURRENT--))\n  fi"
  print "  _normal\n}\n"
  print "_opgap()\n{\n  local curcontext=$curcontext state line\n  local -a commands"
  print "  commands=(\n" described "    'help:help of a command'\n  )"
  print "  _arguments -C '(- *)--help[this text]' '(- *)--version[version]' '1:command:->command' '*::argument:->argument'"
  print "  case $state in\n  command) _describe -t commands command commands; return ;;\n  argument) ;;\n  *) return ;;\n  esac"
  print "  case $words[1] in"
  print "  help) _describe -t commands command commands ;;"
  printf "%s  esac\n}\n\n_opgap \"$@\"\n", cases
}
