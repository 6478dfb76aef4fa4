/* Hooks that must not have a frame of their own.
 *
 * dlsym   The loader looks at the caller's return address (RTLD_NEXT, RUNPATH), so the stub restores everything and
 *         jumps.
 * syscall What it does not look at goes on without a trace on the stack.
 * vfork   The child returns on the parent's stack.  The return address is kept in a register across the system call,
 *         because the child overwrites the stack slot that held it.  What runs before and after in the parent is C;
 *         the child only returns.
 */
#include <asm/unistd.h>

#if defined(__x86_64__)

  .text
  .globl dlsym
  .type dlsym, @function
  .p2align 4
dlsym:
  .cfi_startproc
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  pushq %rsi
  .cfi_adjust_cfa_offset 8
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call opgap_dlsym_notice
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  movq %rax, %rdi
  movq opgap_real_dlsym(%rip), %rax
  movq (%rax), %rax
  testq %rax, %rax
  je 1f
  jmp *%rax
1:ret /* NULL: no dlsym exists in this process */
  .cfi_endproc
  .size dlsym, . - dlsym

  .globl vfork
  .type vfork, @function
  .p2align 4
vfork:
  .cfi_startproc
  subq $8, %rsp
  .cfi_adjust_cfa_offset 8
  call opgap_vfork_begin
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  .cfi_register %rip, %rdi
  movl $__NR_vfork, %eax
  syscall
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  .cfi_offset %rip, -8
  testq %rax, %rax
  je 2f
  pushq %rax
  .cfi_adjust_cfa_offset 8
  movq %rax, %rdi
  call opgap_vfork_end
  popq %rax
  .cfi_adjust_cfa_offset -8
  cmpq $-4095, %rax
  jae 3f
2:ret
3:negl %eax
  pushq %rax
  .cfi_adjust_cfa_offset 8
  call __errno_location@PLT
  popq %rcx
  .cfi_adjust_cfa_offset -8
  movl %ecx, (%rax)
  movq $-1, %rax
  ret
  .cfi_endproc
  .size vfork, . - vfork

/* seccomp, namespaces, the end of a thread, fork, and clone with neither CLONE_VM nor a stack of its own: only of these does the child return as its
 * parent does. */
  .globl syscall
  .type syscall, @function
  .p2align 4
syscall:
  .cfi_startproc
  cmpq $__NR_fork, %rdi
  je opgap_syscall_seen
  cmpq $__NR_seccomp, %rdi
  je opgap_syscall_seen
  cmpq $__NR_exit, %rdi
  je opgap_syscall_seen
  cmpq $__NR_unshare, %rdi
  je opgap_syscall_seen
  cmpq $__NR_setns, %rdi
  je opgap_syscall_seen
  cmpq $__NR_exit_group, %rdi
  je opgap_syscall_seen
  cmpq $__NR_clone, %rdi
  jne 1f
  testl $0x100, %esi
  jne 1f
  testq %rdx, %rdx
  je opgap_syscall_seen
1:movq opgap_real_syscall(%rip), %rax
  movq (%rax), %rax
  testq %rax, %rax
  je opgap_syscall_seen
  jmp *%rax
  .cfi_endproc
  .size syscall, . - syscall

#elif defined(__aarch64__)

  .text
  .globl dlsym
  .type dlsym, %function
  .p2align 4
dlsym:
  .cfi_startproc
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset x29, -32
  .cfi_offset x30, -24
  stp x0, x1, [sp, #16]
  bl opgap_dlsym_notice
  ldr x1, [sp, #24]
  ldp x29, x30, [sp], #32
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  adrp x16, opgap_real_dlsym
  ldr x16, [x16, :lo12:opgap_real_dlsym]
  ldr x16, [x16]
  cbz x16, 1f
  br x16
1:mov x0, xzr
  ret
  .cfi_endproc
  .size dlsym, . - dlsym

/* seccomp, namespaces, the end of a thread, and clone with neither CLONE_VM nor a stack of its own */
  .globl syscall
  .type syscall, %function
  .p2align 4
syscall:
  .cfi_startproc
  cmp x0, #__NR_seccomp
  b.eq 2f
  cmp x0, #__NR_exit
  b.eq 2f
  cmp x0, #__NR_unshare
  b.eq 2f
  mov x9, #__NR_setns
  cmp x0, x9
  b.eq 2f
  cmp x0, #__NR_exit_group
  b.eq 2f
  cmp x0, #__NR_clone
  b.ne 1f
  tbnz w1, #8, 1f
  cbz x2, 2f
1:adrp x16, opgap_real_syscall
  ldr x16, [x16, :lo12:opgap_real_syscall]
  ldr x16, [x16]
  cbz x16, 2f
  br x16
2:b opgap_syscall_seen
  .cfi_endproc
  .size syscall, . - syscall

/* clone(CLONE_VM | CLONE_VFORK | SIGCHLD, 0); x30 lives in x9 across it: the kernel keeps all but x0 */
  .globl vfork
  .type vfork, %function
  .p2align 4
vfork:
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  bl opgap_vfork_begin
  ldp x29, x30, [sp], #16
  .cfi_def_cfa_offset 0
  mov x0, #0x4111
  mov x1, xzr
  mov x8, #__NR_clone
  svc 0
  cbz x0, 2f
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset x30, -24
  str x0, [sp, #16]
  bl opgap_vfork_end
  ldr x0, [sp, #16]
  cmn x0, #4095
  b.cs 3f
  ldp x29, x30, [sp], #32
  .cfi_def_cfa_offset 0
2:ret
3:bl __errno_location
  ldr x1, [sp, #16]
  neg w1, w1
  str w1, [x0]
  mov x0, #-1
  ldp x29, x30, [sp], #32
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size vfork, . - vfork

#endif

  .section .note.GNU-stack, "", %progbits
