# Columns of equal names are told apart, and COLUMNS sets the width in a pipe, too.
mkdir a b
for folder in a b; do
  opgap record --log quiet --out $folder/run.opgap -- true
done
names()
{
  opgap diff --format json "$@" | sed -n '/"runs": \[$/,/^ \],$/s/^   "name": "\(.*\)",$/\1/p' | paste -sd ' '
}
names a/run.opgap b/run.opgap
names a/run.opgap "$PWD/a/run.opgap/" | sed "s#$(basename "$PWD")#FOLDER#g; s#^[^ ]*/a/#a/#"
names a/run.opgap a/run.opgap a/run.opgap
names a/run.opgap x:b/run.opgap
names run.opgap:a/run.opgap b/run.opgap
# the rule under the titles: as wide as the table
for width in 0 60; do
  COLUMNS=$width opgap diff long-enough-a-name-to-need-room:a/run.opgap another-name-that-needs-room:b/run.opgap |
    sed -n '/^---/p' | awk -v width=$width '{ print width, length($0) > 60 ? "more than 60" : "at most 60" }'
done
