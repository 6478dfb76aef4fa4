# The tables of the bash completion; common.bash uses them.  Input: what table.awk wrote.
BEGIN {
  FS = "\t"
}
$1 == "option" {
  options[$2] = options[$2] " " $4 ($3 == "" ? "" : " " $3)
  if ($5 != "")
    values = values "  " $2 "/" $4 ($3 == "" ? "" : " | " $2 "/" $3) ") echo \"" ($5 == "LIST" ? "<list> " : "") $6 "\" ;;\n"
}
$1 == "command" {
  commands = commands $2 " "
  operands = operands "  " $2 ") echo " $3 " ;;\n"
  lists = lists "  " $2 ") echo \"" substr(options[$2], 2) "\" ;;\n"
}
END {
  print "# bash completion of opgap, made from opgap --help"
  print "_opgap_commands=\"" commands "help --help --version\""
  print "\n_opgap_options()\n{\n  case $1 in\n" lists "  esac\n}"
  print "\n# command/option: its values; false when it takes none\n_opgap_values()\n{\n  case $1 in\n" values "  *) return 1 ;;\n  esac\n}"
  print "\n_opgap_operand()\n{\n  case $1 in\n" operands "  esac\n}\n"
}
