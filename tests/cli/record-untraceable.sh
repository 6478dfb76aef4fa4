# Headers that name another machine, and a 32-bit program: said before the kernel refuses them.
elf() # class machine
{
  printf '\177ELF'"$1"'\001\001\000\000\000\000\000\000\000\000\000\002\000'"$2"'\000\001\000\000\000'
  head -c 100 /dev/zero
}
elf '\001' '\003' >x86-32
elf '\002' '\267' >aarch64
elf '\002' '\363' >riscv
chmod +x x86-32 aarch64 riscv
for program in ./x86-32 ./aarch64 ./riscv; do
  opgap record -- "$program" 2>&1 | head -n 1
done
