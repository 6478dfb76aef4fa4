opgap doctor | grep -E '^[a-zA-Z]+ +(preload|tracer|settings) ' | sed 's/: [1-9][0-9]* records/: N records/'
opgap doctor >/dev/null
echo $?
OPGAP_HOKS=1 OPGAP_ALLOC=x opgap doctor | grep settings
OPGAP_ALLOC=x opgap doctor >/dev/null
echo $?
opgap doctor now
