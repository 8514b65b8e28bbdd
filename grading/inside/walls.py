"""The kernel's own walls, through libc: namespaces, mounts, Landlock, capabilities, seccomp.

Each function raises OSError when this kernel refuses; the caller decides what that means. Numbers
are from the kernel's uapi headers (sched.h, mount.h, landlock.h, seccomp.h, prctl.h) and its
syscall tables for x86_64 and arm64.
"""

import ctypes
import os
import platform
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
CLONE_THREAD = 0x00010000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8

MAX_WORKERS = 20  # of one submission at a time: each rank has one

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _prctl(option, *arguments):
    arguments = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(option, *arguments), f"prctl {option}")


def die_with_parent():
    _prctl(_PR_SET_PDEATHSIG, 9)


def stay_dumpable():
    """Keep /proc/self ours after a change of uid, so that the uid map can be written."""
    _prctl(_PR_SET_DUMPABLE, 1)


def no_new_privileges():
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def unshare(flags):
    _checked(_libc.unshare(flags), "unshare")


def enter_namespaces(uid, gid):
    """New ones of all kinds but of processes, in which this user is 1000."""
    unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
    maps = ("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")
    for name, text in maps:
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def back_to_own_processes():
    """The next child is again of this process's own namespace."""
    with open("/proc/self/ns/pid") as own:
        _checked(_libc.setns(own.fileno(), CLONE_NEWPID), "setns")


def mount_tmpfs(path, options, flags=MS_NOSUID | MS_NODEV | MS_NOEXEC):
    source = kind = b"tmpfs"
    done = _libc.mount(source, path.encode(), kind, ctypes.c_ulong(flags), options.encode())
    _checked(done, f"mount tmpfs on {path}")


def sethostname(name):
    _checked(_libc.sethostname(name.encode(), len(name)), "sethostname")


def drop_capabilities():
    """No capability in any set; without new privileges none comes back by an exec either."""
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    _checked(_libc.capset(header, bytes(24)), "capset")


# --- Landlock ----------------------------------------------------------------------------------

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_READ = (1 << 0) | (1 << 2) | (1 << 3)  # execute (for mapped libraries), read file, read directory


def landlock_abi() -> int:
    """The Landlock version of this kernel, 0 without it."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1)))


def landlock(readable, writable):
    """From now on only these trees can be opened; no TCP, no signals or sockets to outside.

    Needs no_new_privileges, as seccomp does.
    """
    abi = landlock_abi()
    files = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1
    # an older kernel takes what it does not know yet if it is 0
    rules = struct.pack("=QQQ", files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    ruleset = _libc.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), ctypes.c_uint(0))
    _checked(ruleset, "landlock_create_ruleset")
    try:
        for paths, access in ((readable, _READ), (writable, files)):
            for path in paths:
                tree = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    allowed = access if os.path.isdir(path) else access & 0b111
                    rule = struct.pack("=Qi", allowed, tree)
                    added = _libc.syscall(_ADD_RULE, ruleset, 1, rule, ctypes.c_uint(0))
                    _checked(added, f"landlock_add_rule {path}")
                finally:
                    os.close(tree)
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint(0)), "landlock")
    finally:
        os.close(ruleset)


# --- seccomp -----------------------------------------------------------------------------------

# What numerical Python never needs. Denied calls fail with EPERM, so that a lab that tries one
# gets an exception with a line number instead of a dead process.
_DENIED = {  # name: (x86_64, arm64)
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_setup": (206, 0),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "memfd_create": (319, 279),
    "vmsplice": (278, 75),  # a pipe keeps the pages it is given, and the limit does not see them
    "splice": (275, 76),
    "tee": (276, 77),
    "fallocate": (285, 47),  # of the file that it prints to, beyond the largest size of files
    "setxattr": (188, 5),  # of the file that it prints to: kernel memory that nothing bounds
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "inotify_init1": (294, 26),
    "inotify_init": (253, None),
    "fanotify_init": (300, 262),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "personality": (135, 92),
    "modify_ldt": (154, None),
    "iopl": (172, None),
    "ioperm": (173, None),
    "syslog": (103, 116),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "sched_setaffinity": (203, 122),  # the other processors are other submissions'
    "sched_setattr": (314, 274),
    "sched_setscheduler": (144, 119),
    "ioprio_set": (251, 30),
    "flock": (73, 32),
    "sync": (162, 81),  # of the whole machine
    "syncfs": (306, 267),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
}
_CLONE = (56, 220)
# From here on the numbers are the same everywhere: clone3, pidfds, io_uring, the new mounts and
# whatever is to come. Python and numpy do without, as they do on a kernel that has none of them.
_NEW = 424
_MMAP = (9, 222)
_SHARED, _ANONYMOUS = 0x01, 0x20
_FCNTL = (72, 25)
# F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_NOTIFY, F_SETPIPE_SZ
_FCNTL_DENIED = 6, 7, 37, 38, 1024, 1026, 1031
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000


def seccomp_program() -> bytes:
    """A BPF filter: the calls above fail, a new process fails, a new thread is allowed."""
    machine = platform.machine()
    column, architecture = MACHINES[machine]
    program = []

    def add(code, value, if_true=0, if_false=0):
        program.append(struct.pack("=HBBI", code, if_true, if_false, value))

    add(_LOAD, 4)
    add(_EQUAL, architecture, 1, 0)
    add(_RETURN, _KILL)
    add(_LOAD, 0)
    if machine == "x86_64":  # the x32 calls are the same calls under other numbers
        add(_AT_LEAST, 0x40000000, 0, 1)
        add(_RETURN, _KILL)
    add(_AT_LEAST, _NEW, 0, 1)
    add(_RETURN, _ERRNO | 38)  # ENOSYS: libc falls back to clone, whose flags can be read here
    add(_EQUAL, _CLONE[column], 0, 4)
    add(_LOAD, 16)
    add(_ANY_BIT, CLONE_THREAD, 0, 1)
    add(_RETURN, _ALLOW)
    add(_RETURN, _ERRNO | 11)  # EAGAIN, what a full process table answers
    # Memory that stays although no page of it is mapped: the limit would not see it.
    add(_EQUAL, _MMAP[column], 0, 5)
    add(_LOAD, 40)
    add(_ANY_BIT, _ANONYMOUS, 0, 2)
    add(_ANY_BIT, _SHARED, 0, 1)
    add(_RETURN, _ERRNO | 1)
    add(_RETURN, _ALLOW)
    # By locks on what all may read, workers could tell each other something. And a lease, which a
    # file's owner may take by only reading it, delays whoever else opens the file by 45 s; a grader
    # without root is the owner of what its workers read.
    add(_EQUAL, _FCNTL[column], 0, 2 + len(_FCNTL_DENIED) + 1)
    add(_LOAD, 24)
    for left, command in enumerate(reversed(_FCNTL_DENIED)):
        add(_EQUAL, command, len(_FCNTL_DENIED) - left, 0)
    add(_RETURN, _ALLOW)
    add(_RETURN, _ERRNO | 1)
    for numbers in _DENIED.values():
        if numbers[column] is not None:
            add(_EQUAL, numbers[column], 0, 1)
            add(_RETURN, _ERRNO | 1)
    add(_RETURN, _ALLOW)
    return b"".join(program)


def seccomp(program: bytes):
    """Install the filter on this thread and all that it starts, for ever."""
    buffer = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions and where they are
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(header, len(header))
    _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(holder))
