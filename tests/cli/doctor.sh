# A python3 of its own: what doctor says of PyTorch and CUPTI must not depend on the machine.
mkdir bin cuda cuda/extras cuda/extras/CUPTI cuda/extras/CUPTI/lib64
printf '#!/bin/sh\nexit 1\n' >bin/python3
chmod +x bin/python3
touch cuda/extras/CUPTI/lib64/libcupti.so.12
export PATH="$PWD/bin:$PATH" CUDA_HOME="$PWD/cuda"
opgap doctor | grep -E '^[a-zA-Z]+ +(preload|tracer|settings|rings|limits|rights|pytorch|cupti) ' |
  sed 's/: [1-9][0-9]* records/: N records/'
opgap doctor >/dev/null
echo $?
# PyTorch without ops in its trace, with a CUPTI of its own
printf '#!/bin/sh\necho 2.9.0; echo 13.0; echo /somewhere/libcupti.so.13\n' >bin/python3
opgap doctor | grep -E ' (pytorch|cupti) '
(ulimit -f 2048; opgap doctor | grep ' limits ')
OPGAP_HOKS=1 OPGAP_ALLOC=x opgap doctor | grep settings
OPGAP_ALLOC=x opgap doctor >/dev/null
echo $?
opgap doctor now
