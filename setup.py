"""Build the parts in C, where there is a compiler: everything else is in pyproject.toml.

The reflex is a library, as every extension is. The front is a program that needs no library of the host, since it runs
there also where this package is in an image. Both are optional: without them, Python does the same. So a front that was
built in this tree serves where there is no compiler: an image gets it that way.
"""

import os
import shutil

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CCompilerError

FRONT = "sidecar.runtime.cpuset_front"
SOURCES = "sidecar/runtime/program"
BUILT = "sidecar/runtime/cpuset-front"


class Programs(build_ext):
    """Build an extension with the front's name as a program."""

    def build_extension(self, ext: Extension) -> None:
        """Compile and link; what fails is told, and left out."""
        if ext.name != FRONT:
            super().build_extension(ext)
            return
        folder, name = os.path.split(self.get_ext_fullpath(ext.name))
        os.makedirs(folder, exist_ok=True)
        try:
            objects = self.compiler.compile(ext.sources, self.build_temp, depends=ext.depends)
            self.compiler.link_executable(objects, name, folder, ext.libraries, extra_postargs=ext.extra_link_args)
        except CCompilerError:
            if not os.path.exists(BUILT):
                raise
            shutil.copy(BUILT, os.path.join(folder, name))

    def get_ext_filename(self, fullname: str) -> str:
        """Return the name of a program's file as people know it."""
        if fullname.rpartition(".")[2] != FRONT.rpartition(".")[2]:
            return super().get_ext_filename(fullname)
        return os.path.join(*fullname.split(".")[:-1], "cpuset-front")


sources = sorted(os.path.join(SOURCES, name) for name in os.listdir(SOURCES) if name.endswith(".c"))
front = Extension(
    FRONT,
    sources,
    depends=[f"{SOURCES}/front.h"],
    libraries=["yajl_s"],
    extra_link_args=["-static", "-s"],
    optional=True,
)
reflex = Extension("sidecar.hand.reflex", ["sidecar/hand/reflex.c"], extra_link_args=["-pthread"], optional=True)
replacer = Extension("sidecar.projection.replacer", ["sidecar/projection/replacer.c"], optional=True)
setup(cmdclass={"build_ext": Programs}, ext_modules=[reflex, replacer, front])
