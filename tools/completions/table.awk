# Reads the help text of a command (-v name=..., -v summary=...); writes its options and itself, fields between tabs:
#   option   NAME  -s or nothing  --long  VALUE or nothing  values, <files> or nothing  text
#   command  NAME  operand (program, trace or none)  summary

# The words of the first list in a text: "json, csv or markdown".
function first_list(text, found, count) {
  gsub(/ \([a-z ]*\)/, "", text)
  if (!match(text, /[a-z_]+, ([a-z_]+, )*([a-z_]+ or )?[a-z_]+/))
    return ""
  found = substr(text, RSTART, RLENGTH)
  count = gsub(/, | or /, " ", found)
  return count >= 2 ? found : ""
}
function finish(values) {
  if (long == "")
    return
  values = ""
  if (value ~ /\|/) {
    values = value
    gsub(/\|/, " ", values)
  } else if (value == "FILE" || value == "PATH" || value == "FOLDER") {
    values = "<files>"
  } else if (value != "") {
    values = first_list(text)
  }
  print "option\t" name "\t" short "\t" long "\t" value "\t" values "\t" text
  long = ""
}
NR == 1, /^$/ { usage = usage $0 }
/^ ? ? ? ? ? ?-/ {
  finish()
  rest = $0
  sub(/^ */, "", rest)
  short = ""
  if (rest ~ /^-[a-zA-Z], /) {
    short = substr(rest, 1, 2)
    rest = substr(rest, 5)
  }
  if (!match(rest, /^--[a-z-]+/))
    next
  long = substr(rest, 1, RLENGTH)
  rest = substr(rest, RLENGTH + 1)
  value = ""
  if (match(rest, /^[ =][^ ]+/)) {
    value = substr(rest, 2, RLENGTH - 1)
    rest = substr(rest, RLENGTH + 1)
  }
  sub(/^ */, "", rest)
  text = rest
  next
}
long != "" && /^       *[^ ]/ {
  sub(/^ */, "")
  text = text (text == "" ? "" : " ") $0
  next
}
{ finish() }
END {
  finish()
  operand = usage ~ /PROGRAM/ ? "program" : usage ~ /TRACE|RUN| A B/ ? "trace" : "none"
  print "command\t" name "\t" operand "\t" summary
}
