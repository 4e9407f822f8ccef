"""The bill of materials of a release, in SPDX 2.3: what is linked into the binary, with the versions that this machine's
packages have.

    python3 sbom.py VERSION BUILD-FOLDER COMMIT RELEASE-FOLDER"""

import datetime
import hashlib
import json
import os
import pathlib
import subprocess
import sys

# What CMake's cache calls a library's file, or a folder of its headers; its name, its homepage and its licence.
LINKED = (
    ("GPUPLAN_STATIC_yaml-cpp", "yaml-cpp", "https://github.com/jbeder/yaml-cpp", "MIT"),
    ("GPUPLAN_STATIC_z", "zlib", "https://zlib.net", "Zlib"),
    ("Protobuf_LITE_LIBRARY_RELEASE", "protobuf", "https://protobuf.dev", "BSD-3-Clause"),
    ("GPUPLAN_ONNX_SCHEMA", "onnx", "https://onnx.ai", "Apache-2.0"),
    ("CLI11_DIR", "CLI11", "https://github.com/CLIUtils/CLI11", "BSD-3-Clause"),
    ("nlohmann_json_DIR", "nlohmann-json", "https://json.nlohmann.me", "MIT"),
)


def owner(path):
    """(package, version) of Debian's that a file is of."""
    found = subprocess.run(["dpkg-query", "-S", os.path.realpath(path)], capture_output=True, text=True)
    if found.returncode != 0:
        return None
    package = found.stdout.split(": ")[0].split(",")[0]
    shown = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}", package], capture_output=True, text=True, check=True)
    return tuple(shown.stdout.split(" "))


def entry(name, version, homepage, licence, more=None):
    return {"SPDXID": "SPDXRef-" + name, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "homepage": homepage,
            "filesAnalyzed": False, "licenseConcluded": "NOASSERTION", "licenseDeclared": licence, "copyrightText": "NOASSERTION",
            **(more or {})}


def of_debian(package, version):
    return {"externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{package}@{version}"}]}


def main():
    version, build, commit, folder = sys.argv[1:]
    cache = {}
    for line in (pathlib.Path(build) / "CMakeCache.txt").read_text().splitlines():
        name, found, value = line.partition("=")
        if found and not line.startswith(("#", "/")):
            cache[name.split(":")[0]] = value
    packages = [entry("gpuplan", version, "NOASSERTION", "NOASSERTION")]
    for variable, name, homepage, licence in LINKED:
        path = cache.get(variable, "")
        found = owner(path) if path and not path.endswith("NOTFOUND") else None
        if found is None:
            sys.exit(f"error: of which package {name} is, is not known ({variable} is {path or 'not set'})")
        packages.append(entry(name, found[1], homepage, licence, of_debian(*found)))
    compiler = cache["CMAKE_CXX_COMPILER"]
    library = subprocess.run([compiler, "-print-file-name=libstdc++.a"], capture_output=True, text=True, check=True).stdout.strip()
    package, of_compiler = owner(library)
    packages.append(entry("libstdcxx", of_compiler, "https://gcc.gnu.org", "GPL-3.0-or-later WITH GCC-exception-3.1",
                          of_debian(package, of_compiler)))
    files = [{"SPDXID": f"SPDXRef-file-{number}", "fileName": "./" + path.name, "licenseConcluded": "NOASSERTION",
              "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION",
              "checksums": [{"algorithm": name, "checksumValue": hashlib.new(name.lower(), path.read_bytes()).hexdigest()}
                            for name in ("SHA1", "SHA256")]}
             for number, path in enumerate(sorted(pathlib.Path(folder).iterdir()), 1) if path.name.endswith((".tar.gz", ".deb", ".whl"))]
    describes = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-gpuplan"}]
    linked = [{"spdxElementId": "SPDXRef-gpuplan", "relationshipType": "STATIC_LINK", "relatedSpdxElement": package["SPDXID"]}
              for package in packages[1:]]
    made = [{"spdxElementId": file["SPDXID"], "relationshipType": "GENERATED_FROM", "relatedSpdxElement": "SPDXRef-gpuplan"} for file in files]
    created = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"gpuplan-{version}",
                "documentNamespace": f"https://spdx.org/spdxdocs/gpuplan-{version}-{commit}",
                "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": [f"Tool: gpuplan-release-{version}"]},
                "packages": packages, "files": files, "relationships": describes + linked + made}
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
