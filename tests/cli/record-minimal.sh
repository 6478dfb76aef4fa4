# The C training: the program's output is unchanged by tracing, and each call on its 1280 files is in the trace.
"$PROGRAMS/cli-minimal" first 2 >untraced
opgap record --log quiet --out t.opgap -- "$PROGRAMS/cli-minimal" second 2 >traced
echo $?
cmp untraced traced
opgap info --records t.opgap >records
# 1280 files written; read twice by the loader thread
for call in fopen fclose fread fwrite pthread_create; do
  echo "$call $(grep -c " $call [0-9]" records)"
done
opgap info t.opgap | grep "'loader'" | grep -c 'lost 0'
