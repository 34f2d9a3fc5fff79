"""The system calls that a sealed process may make, and the seccomp filter that refuses all others.

They read and write what is open, open what Landlock allows, and manage the process's own memory, threads and
workers. What is missing could reach other processes or leave marks on files: sockets, shared memory, queues,
semaphores, keys, locks, attributes, modes, owners, times, limits and priorities of others, signals, programs,
links, devices, mounts, namespaces, tracing, bpf, perf and io_uring.
"""

import ctypes
import errno
import os
import struct
import sys
from typing import Any

# The column of the numbers below, and the machine's number for seccomp.
_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
# The numbers by machine; -1 where a machine has no such call.
_CALLS = {
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "pread64": (17, 67),
    "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70), "lseek": (8, 62), "sendfile": (40, 71),
    "copy_file_range": (326, 285), "close": (3, 57), "close_range": (436, 436), "dup": (32, 23),
    "dup2": (33, -1), "dup3": (292, 24), "pipe": (22, -1), "pipe2": (293, 59), "select": (23, -1),
    "pselect6": (270, 72), "poll": (7, -1), "ppoll": (271, 73), "stat": (4, -1), "fstat": (5, 80),
    "lstat": (6, -1), "newfstatat": (262, 79), "statx": (332, 291), "statfs": (137, 43), "fstatfs": (138, 44),
    "access": (21, -1), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, -1),
    "readlinkat": (267, 78), "getdents64": (217, 61), "getcwd": (79, 17), "chdir": (80, 49),
    "fchdir": (81, 50), "mkdir": (83, -1), "mkdirat": (258, 34), "rmdir": (84, -1), "unlink": (87, -1),
    "unlinkat": (263, 35), "rename": (82, -1), "renameat": (264, 38), "renameat2": (316, 276),
    "ftruncate": (77, 46), "fallocate": (285, 47), "fsync": (74, 82), "fdatasync": (75, 83),
    "fadvise64": (221, 223), "umask": (95, 166), "mmap": (9, 222), "mprotect": (10, 226),
    "munmap": (11, 215), "brk": (12, 214), "mremap": (25, 216), "madvise": (28, 233), "msync": (26, 227),
    "mincore": (27, 232), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigtimedwait": (128, 137), "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132), "pause": (34, -1), "alarm": (37, -1), "getitimer": (36, 102),
    "setitimer": (38, 103), "restart_syscall": (219, 128), "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115), "clock_gettime": (228, 113), "clock_getres": (229, 114),
    "gettimeofday": (96, 169), "time": (201, -1), "times": (100, 153), "getpid": (39, 172),
    "gettid": (186, 178), "getppid": (110, 173), "getpgrp": (111, -1), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "fork": (57, -1), "exit": (60, 93),
    "exit_group": (231, 94), "wait4": (61, 260), "waitid": (247, 95), "prctl": (157, 167),
    "arch_prctl": (158, -1), "getrlimit": (97, 163), "getrusage": (98, 165), "sysinfo": (99, 179),
    "uname": (63, 160), "getcpu": (309, 168), "sched_yield": (24, 124), "sched_getaffinity": (204, 123),
    "sched_getscheduler": (145, 120), "sched_getparam": (143, 121), "membarrier": (324, 283),
    "futex": (202, 98), "set_robust_list": (273, 99), "get_robust_list": (274, 100),
    "set_tid_address": (218, 96), "rseq": (334, 293), "getrandom": (318, 278),
}  # fmt: skip
# What a GPU's driver calls in addition.
_GPU = {
    "eventfd2": (290, 19), "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, -1),
    "epoll_pwait": (281, 22), "memfd_create": (319, 279), "mlock": (149, 228), "munlock": (150, 229),
    "mbind": (237, 235), "get_mempolicy": (239, 236), "set_mempolicy": (238, 237), "ioctl": (16, 29),
}  # fmt: skip
# Calls that are allowed for some values of an argument: (numbers, the argument's place, a mask, what the
# masked argument must be, one of these).
_OPENS_SHORTENED = os.O_TRUNC | os.O_ACCMODE
_BOUND: dict[str, tuple[tuple[int, int], tuple[tuple[int, int, tuple[int, ...]], ...]]] = {
    # No namespace (CLONE_NEW…), and no child that another process than this one would have to wait for.
    "clone": ((56, 220), ((0, 0x7E02A000, (0,)),)),
    # The process's own limits, read only.
    "prlimit64": ((302, 261), ((0, 0xFFFFFFFF, (0,)), (2, 0xFFFFFFFF, (0,)))),
    # Copies and flags of descriptors: neither locks nor owners of signals.
    "fcntl": ((72, 25), ((1, 0xFFFFFFFF, (0, 1, 2, 3, 4, 1030, 1031, 1032)),)),
    # Whether it is a terminal, its size, and the bytes that can be read.
    "ioctl": ((16, 29), ((1, 0xFFFFFFFF, (0x5401, 0x5413, 0x541B, 0x5450, 0x5451)),)),
    # Before Linux 6.2 Landlock lets a file be truncated that is opened for reading.
    "open": ((2, -1), ((1, _OPENS_SHORTENED, tuple(set(range(4)) | {os.O_TRUNC | n for n in (1, 2)})),)),
    "openat": ((257, 56), ((2, _OPENS_SHORTENED, tuple(set(range(4)) | {os.O_TRUNC | n for n in (1, 2)})),)),
}
# glibc tries this call first and takes `clone` where it is unknown.
_UNKNOWN = {"clone3": (435, 435)}

_LOAD, _EQUAL, _AND, _ANSWER = 0x20, 0x15, 0x54, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x50000 | errno.EACCES
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_FILTER, _ALL_THREADS = 1, 1


def _lines(device: str, column: int, machine: int) -> list[tuple[int, int, int, int]]:
    """Return the lines of the filter: (operation, jump if true, jump if false, value)."""
    # The number of a call stands at offset 0, its machine at 4, the lower half of argument n at 16 + 8 n. A
    # jump skips a number of lines.
    lines = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_ANSWER, 0, 0, _REFUSE), (_LOAD, 0, 0, 0)]
    for numbers in [*_CALLS.values(), *(_GPU.values() if device != "cpu" else ())]:
        if numbers[column] >= 0:
            lines += [(_EQUAL, 0, 1, numbers[column]), (_ANSWER, 0, 0, _ALLOW)]
    for numbers, bounds in _BOUND.values():
        if numbers[column] < 0:
            continue
        checks: list[tuple[int, int, int, int]] = []
        for place, mask, values in bounds:
            checks += [(_LOAD, 0, 0, 16 + 8 * place), (_AND, 0, 0, mask)]
            checks += [(_EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
            checks += [(_ANSWER, 0, 0, _REFUSE)]
        checks += [(_ANSWER, 0, 0, _ALLOW)]
        lines += [(_EQUAL, 0, len(checks), numbers[column]), *checks]
    for numbers in _UNKNOWN.values():
        lines += [(_EQUAL, 0, 1, numbers[column]), (_ANSWER, 0, 0, 0x50000 | errno.ENOSYS)]
    return [*lines, (_ANSWER, 0, 0, _REFUSE)]


def filtered(device: str, libc: Any) -> bool:
    """Leave this process the calls of the list, and return whether the kernel does so."""
    machine = os.uname().machine
    if sys.platform != "linux" or machine not in _MACHINES:
        return False
    lines = _lines(device, *_MACHINES[machine])
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in lines))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(lines), ctypes.addressof(code)))
    return bool(libc.syscall(_SECCOMP[machine], _SET_FILTER, _ALL_THREADS, program) == 0)
