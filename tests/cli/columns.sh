# docs/COLUMNS.md defines each column that the tables have, and nothing else; README and --help name the page.
root=$(dirname "$0")/../..
/usr/bin/python3 - "$root" <<'END'
import glob, re, sys
root = sys.argv[1]
sources = "".join(open(path).read() for path in glob.glob(root + "/src/output/*.c") + [root + "/tools/diff.c"])
tables = re.findall(r"table_column [a-z_]*columns\[\] = \{(.*?)\};", sources, re.S)
tables += re.findall(r"ended_columns\[\] = \{(.*?)\};", sources, re.S)
titles = {title for table in tables for title in re.findall(r'\{"([^"]*)", (?:true|false),', table)} - {"", "of"}
titles |= {"Per step", "Whole run"}
rows = re.findall(r"^\| ([^|]*) \|", open(root + "/docs/COLUMNS.md").read(), re.M)
defined = {name for row in rows for name in row.split(", ")} - {"column", "---", "(by what)"}
print("tables", len(tables) > 20, "columns", len(titles) > 90)
print("not defined:", sorted(titles - defined))
print("defined, but no column:", sorted(defined - titles))
END
grep -c 'docs/COLUMNS.md' "$root/README.md"
opgap report --help | grep COLUMNS
