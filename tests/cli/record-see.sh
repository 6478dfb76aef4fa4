# The command named at the end reads this trace: with its path where plain `opgap report` would take another or none.
mkdir other later.opgap
touch -d '2100-01-01' later.opgap
opgap record --out older.opgap -- true
rmdir later.opgap
opgap record --out t -- true
opgap record --out other/t.opgap -- true
opgap record --out newest.opgap -- true
