"""lines.py LIBRARY OUTPUT: ops of the stand-in for torch from every kind of Python frame.

Writes for each op, in order, what its source line is according to sys._getframe: NAME, FILE:LINE QUALIFIED-NAME.
"""
import asyncio
import ctypes
import importlib.util
import os
import sys
import tempfile
import threading

LIBRARIES = (ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1]))  # without and with the GIL held in the call
for library in LIBRARIES:
    library.fake_begin.restype = ctypes.c_void_p
    library.fake_begin.argtypes = (ctypes.c_ubyte, ctypes.c_char_p, ctypes.c_long, ctypes.c_int)
    library.fake_end.argtypes = (ctypes.c_void_p,)
library.PyInit__fake  # what an import looks up
expected = []
lock = threading.Lock()


def op(library, frame=None):
    """One op; its place is the caller's of a function in a package, which is where `frame` comes from."""
    with lock:
        name = "op %d" % len(expected)
        expected.append(None)
        here = frame or sys._getframe()
        begun = library.fake_begin(0, name.encode(), -1, 0); line = here.f_lineno  # one line: the op's own
        library.fake_end(begun)
        expected[int(name[3:])] = "%s:%d %s" % (here.f_code.co_filename, line, getattr(here.f_code, "co_qualname", here.f_code.co_name))


class Thing:
    def method(self, library, depth):
        if depth:
            return self.method(library, depth - 1)
        return op(library)

    def __getattr__(self, name):
        op(LIBRARIES[1])
        return name


def generator(library):
    yield op(library)
    yield op(library)


async def coroutine(library):
    op(library)


def package_function():
    """A module in a folder named site-packages that calls back; the op belongs to whoever called the module."""
    folder = os.path.join(tempfile.mkdtemp(), "site-packages")
    os.mkdir(folder)
    path = os.path.join(folder, "package.py")
    with open(path, "w") as out:
        out.write("def run(library, name):\n    library.fake_end(library.fake_begin(0, name, -1, 0))\n")
    spec = importlib.util.spec_from_file_location("package", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.run


def direct(library, name, begin, end):
    """A function with many lines, so that every form of the location table is met."""
    def note(line):
        expected.append("%s:%d direct" % (__file__, line))
    first = sys._getframe().f_lineno + 2

    end(begin(0, name % len(expected), -1, 0)); note(first)
    # one
    # two
    end(begin(0, name % len(expected), -1, 0)); note(first + 3)
    if library is not None:

        for _ in range(3):
            end(begin(0,
                      name % len(expected), -1, 0)); note(first + 7)
    end(
        begin(0, name % len(expected), -1, 0)); note(first + 10)


run_in_package = package_function()
for library in LIBRARIES:
    op(library)
    Thing().method(library, 20)
    Thing().anything
    list(generator(library))
    (lambda: op(library))()
    [op(library) for _ in range(3)]
    sorted([3, 1, 2], key=lambda value: (op(library), value)[1])
    asyncio.run(coroutine(library))
    exec(compile("\n\n\nop(library)\n", "<exec \u00e9\u4e2d\U0001f600>", "exec"), {"op": op, "library": library})
    direct(library, b"op %d", library.fake_begin, library.fake_end)
    run_in_package(library, b"op %d" % len(expected)); expected.append("%s:%d <module>" % (__file__, sys._getframe().f_lineno))
    threads = [threading.Thread(target=Thing().method, args=(library, i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

with open(sys.argv[2], "w", encoding="utf-8") as out:
    for number, place in enumerate(expected):
        out.write("op %d\t%s\n" % (number, place))
