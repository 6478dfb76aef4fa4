# A page of opgap html is neither a baseline nor a trace, and is called what it is.
opgap record --log quiet --out t.opgap -- true
opgap html -o page.html t.opgap 2>/dev/null
opgap gate --baseline page.html t.opgap
echo $?
opgap report page.html
echo $?
