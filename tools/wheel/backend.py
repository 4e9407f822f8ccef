"""Builds the wheel: scikit-build-core, and the tag of the oldest glibc that the files inside need (PEP 600), read from
the versions of the symbols that they import."""

import pathlib
import re
import subprocess
import sys
import zipfile
from io import BytesIO

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from scikit_build_core.build import (  # noqa: F401  what pip calls
    build_sdist,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)
from scikit_build_core.build import build_wheel as build_untagged


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    folder = pathlib.Path(wheel_directory)
    wheel = folder / build_untagged(wheel_directory, config_settings, metadata_directory)
    platform = re.sub(r"^linux_", "manylinux_%d_%d_" % oldest_glibc(wheel), wheel.stem.split("-")[-1])
    said = subprocess.run(
        [sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", platform, str(wheel)],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return said.stdout.split()[-1]


def oldest_glibc(wheel):
    """(2, 34): of all files the newest version that one asks for."""
    with zipfile.ZipFile(wheel) as archive:
        versions = [version for name in archive.namelist() for version in _needed(archive.read(name))]
    return max(versions, default=(2, 17))


def _needed(content):
    try:
        section = ELFFile(BytesIO(content)).get_section_by_name(".gnu.version_r")
    except ELFError:  # not a program
        return
    for _, versions in section.iter_versions() if section else ():
        for version in versions:
            if found := re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version.name):
                yield int(found[1]), int(found[2])
