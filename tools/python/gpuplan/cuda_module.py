"""What `gpuplan validate` and `gpuplan calibrate` load: a wheel has its sources, compiled here once where CUDA's compiler is."""
from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Iterable, List, Optional

from gpuplan.errors import GpuplanError
from gpuplan.program import HERE

MODULE = HERE / "lib" / "gpuplan" / "libgpuplan_cuda.so"
SOURCES = HERE / "lib" / "gpuplan" / "cuda"
COMMANDS = ("validate", "calibrate")
# As validate/cuda/CMakeLists.txt: Turing to Hopper, and code that the driver compiles for what comes after.
ARCHITECTURES = ("arch=compute_75,code=sm_75", "arch=compute_80,code=sm_80", "arch=compute_90,code=[sm_90,compute_90]")


def is_missing(words: List[str]) -> bool:
    """Whether the command needs the module, which is not there but can be made."""
    asked = bool(words) and words[0] in COMMANDS and not {"-h", "--help"} & set(words)
    return asked and SOURCES.is_dir() and not MODULE.exists()


def build() -> None:
    """Compiles the module; takes minutes, and says on standard error how far it is. Raises GpuplanError."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise GpuplanError("gpuplan validate runs on a GPU, and this machine has no NVIDIA driver (libcuda.so.1)",
                           help="estimates need none: gpuplan plan") from None
    nvcc = _nvcc()
    compiler = os.environ.get("CUDAHOSTCXX") or shutil.which("g++")
    if compiler is None:
        raise GpuplanError("gpuplan validate compiles its CUDA kernels once, and there is no C++ compiler", help="install g++ 12 or later")
    if not os.access(MODULE.parent, os.W_OK):
        raise GpuplanError(f"gpuplan validate compiles its CUDA kernels once, and {MODULE.parent} cannot be written",
                           help="run it once as who installed the wheel")
    roots = [nvcc.parent.parent, Path("/usr"), Path("/usr/local"), *_of_pip("*")]
    cudnn = _of_pytorch(nvcc) + roots  # measured beside PyTorch's figures: with its cuDNN, whose workspaces are those planned
    includes = [_folder(name, cudnn if name == "cudnn.h" else roots, ("include", "targets/x86_64-linux/include"))
                for name in ("cuda_runtime.h", "cublasLt.h", "cudnn.h")]
    libraries = [_library(name, cudnn if name == "libcudnn.so" else roots) for name in ("libcudart.so", "libcublasLt.so", "libcudnn.so")]
    sources = [p for p in sorted((SOURCES / "validate" / "cuda").rglob("*")) if p.suffix in (".cpp", ".cu")]
    sources += [SOURCES / "estimator" / "base" / name for name in ("dtype.cpp", "error.cpp", "utf8.cpp")]
    include = [f"-I{folder}" for folder in dict.fromkeys([SOURCES, *includes])]
    architectures = _of_these_gpus() or ARCHITECTURES
    with tempfile.TemporaryDirectory(dir=MODULE.parent) as folder:
        def compile_one(number: int) -> str:
            made = os.path.join(folder, f"{number}.o")
            generated = [f"-gencode={word}" for word in architectures] if sources[number].suffix == ".cu" else []
            _run([str(nvcc), "-ccbin", compiler, "-std=c++20", "-O3", "--expt-relaxed-constexpr", "-DNDEBUG", *generated, *include,
                  "-Xcompiler=-fPIC,-fvisibility-inlines-hidden,-w,-ftrivial-auto-var-init=zero", "-c", str(sources[number]), "-o", made])
            return made

        objects = []
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in as_completed([pool.submit(compile_one, number) for number in range(len(sources))]):
                objects.append(done.result())
                _progress(f"compiling its CUDA kernels, once: {len(objects)} of {len(sources)}")
        made = os.path.join(folder, MODULE.name)
        _run([compiler, "-shared", "-o", made, *objects, *map(str, libraries), *(f"-Wl,-rpath,{p.parent}" for p in libraries)])
        os.replace(made, MODULE)
    _progress("")


def _nvcc() -> Path:
    named = os.environ.get("CUDACXX") or shutil.which("nvcc")
    places = [Path(named)] if named else []
    places += [Path(os.environ.get(name, "/usr/local/cuda")) / "bin" / "nvcc" for name in ("CUDA_PATH", "CUDA_HOME")]
    places += [folder / "bin" / "nvcc" for folder in _of_pip("*")]
    for place in places:
        if place.is_file():
            return place.resolve()
    raise GpuplanError("gpuplan validate compiles its CUDA kernels once, and there is no nvcc",
                       help="install the CUDA toolkit, or pip install nvidia-cuda-nvcc, and set CUDA_PATH; estimates need neither")


def _of_these_gpus() -> List[str]:
    """Of a machine whose GPUs are known code is generated for those alone: a third of the time."""
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    numbers = sorted({line.strip().replace(".", "") for line in said.stdout.splitlines()})
    return [f"arch=compute_{number},code=[sm_{number},compute_{number}]" for number in numbers if re.fullmatch(r"\d+", number)]


def _of_pip(pattern: str) -> List[Path]:
    """The folders of NVIDIA's wheels beside this package."""
    return sorted(Path(sysconfig.get_path("purelib")).glob(f"nvidia/{pattern}"))


def _of_pytorch(nvcc: Path) -> List[Path]:
    """The folder of the cuDNN that pip installed with PyTorch, where it is for this compiler's CUDA."""
    said = subprocess.run([str(nvcc), "--version"], stdout=subprocess.PIPE, text=True).stdout
    release = re.search(r"release (\d+)", said)
    made_for = Path(sysconfig.get_path("purelib")).glob(f"nvidia_cudnn_cu{release.group(1) if release else ''}-*.dist-info")
    return _of_pip("cudnn") if any(made_for) else []


def _folder(name: str, roots: Iterable[Path], places: Iterable[str]) -> Path:
    for root in roots:
        for place in places:
            if (root / place / name).is_file():
                return root / place
    raise GpuplanError(f"gpuplan validate compiles its CUDA kernels once, and there is no {name}",
                       help="install the CUDA toolkit with cuBLAS, and cuDNN")


def _library(name: str, roots: Iterable[Path]) -> Path:
    """libcudart.so, or libcudart.so.13 as NVIDIA's wheels have it."""
    for root in roots:
        for place in ("lib64", "lib", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu"):
            found: Optional[Path] = next(iter(sorted((root / place).glob(name + "*"), key=lambda p: len(p.name))), None)
            if found is not None:
                return found
    raise GpuplanError(f"gpuplan validate compiles its CUDA kernels once, and there is no {name}",
                       help="install the CUDA toolkit with cuBLAS, and cuDNN")


def _run(command: List[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise GpuplanError("the CUDA kernels could not be compiled", text=f"error: {' '.join(command)}\n{done.stdout[-4000:]}")


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K" + (f"gpuplan: {text}" if text else ""))
    elif text:
        sys.stderr.write(f"gpuplan: {text}\n")
    sys.stderr.flush()
