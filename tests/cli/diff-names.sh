# Columns of equal names are told apart.
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
