opgap info
echo $?
opgap info missing.opgap
echo $?
mkdir empty.opgap
opgap info empty.opgap
echo $?
echo 'not a trace, but long enough to look at: 0123456789 0123456789 0123456789' >foreign.opgt
opgap info foreign.opgt
echo $?
: >none.opgt
opgap info none.opgt
echo $?
opgap info --frobnicate
echo $?
opgap info a b
