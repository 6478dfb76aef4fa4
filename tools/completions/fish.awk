# The fish completion.  Input: what table.awk wrote.
function quoted(text) {
  gsub(/\\/, "\\\\", text)
  gsub(/'/, "\\'", text)
  return "'" text "'"
}
BEGIN {
  FS = "\t"
  print "# fish completion of opgap, made from opgap --help\n"
  print "function __opgap_traces"
  print "    for path in (commandline -ct)*"
  print "        if string match -qr '\\.(opgap|opgt|json)$' -- $path\n            echo $path"
  print "        else if test -d $path\n            echo $path/\n        end\n    end\nend\n"
  print "complete -c opgap -f"
  print "complete -c opgap -n __fish_use_subcommand -l help -d 'this text'"
  print "complete -c opgap -n __fish_use_subcommand -l version -d version"
  print "complete -c opgap -n __fish_use_subcommand -a help -d 'help of a command'"
}
$1 == "option" {
  takes = $6 == "<files>" ? " -r -F" : $6 == "" ? ($5 == "" ? "" : " -x") : $5 == "LIST" ? " -x -a '(__fish_append , " $6 ")'" : " -x -a " quoted($6)
  print "complete -c opgap -n '__fish_seen_subcommand_from " $2 "'" ($3 == "" ? "" : " -s " substr($3, 2)) " -l " substr($4, 3) takes " -d " quoted($7)
}
$1 == "command" {
  print "complete -c opgap -n __fish_use_subcommand -a " $2 " -d " quoted($4)
  print "complete -c opgap -n '__fish_seen_subcommand_from help' -a " $2 " -d " quoted($4)
  if ($3 == "trace")
    print "complete -c opgap -n '__fish_seen_subcommand_from " $2 "' -a '(__opgap_traces)'"
  else if ($3 == "program")
    print "complete -c opgap -n '__fish_seen_subcommand_from " $2 "' -x -a '(__fish_complete_subcommand --fcs-skip=2)'"
}
