# Inside a trace's folder, by whatever name, that trace is the one that is meant; beside traces the newest of them is.
opgap record --log quiet --out t.opgap -- sh -c 'exit 3'
opgap info --archive kept t.opgap >/dev/null
cd kept || exit 1
opgap report | sed -n 's/^  \(trace\|command\)  */\1 /p'
opgap info | head -n 1
opgap export --to csv -o - | head -n 1 | cut -d , -f 1-3
cd ../t.opgap || exit 1
opgap info | head -n 1
cd .. || exit 1
opgap info | head -n 1
mkdir bare
cd bare || exit 1
opgap report
echo $?
