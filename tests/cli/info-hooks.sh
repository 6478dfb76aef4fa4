opgap info --hooks | head -n 3
opgap info --hooks | grep -E '^(pread64|pthread_mutex_lock) ' | sed 's/  */ /g'
opgap info --hooks | tail -n 2 | sed 's/^[0-9]* functions/N functions/'
opgap info --hooks x.opgap
echo $?
