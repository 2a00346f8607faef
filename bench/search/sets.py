#!/usr/bin/env python3
"""Makes the sets of `cargo xtask search`: functions of published packages, with the first line of their doc comments as
questions.

Usage: sets.py PACKAGES TRAIN FOLDER
       sets.py PACKAGES TRAIN --check

Refuses packages that are in the training data (TRAIN/../DATA.tsv): models have seen them. With --check that is all.

Fetches the packages that PACKAGES lists (pip, npm and cargo do the work) into FOLDER/packages, and writes
FOLDER/<language>.jsonl: one function per line with its name, its code without the comment, and the question, or no
question if the comment is too short or describes another function as well. TRAIN is the folder of the training scripts,
whose extraction is used. The order depends on a fixed seed only.
"""

import collections
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile

PACKAGES, TRAIN, FOLDER = sys.argv[1:4]


def packages():
    with open(PACKAGES) as lines:
        for line in lines:
            if not line.startswith("#"):
                yield line.split()


def normal(name):
    """One spelling of a name: `@scope/name` is `scope-name` in the training data."""
    return name.lower().lstrip("@").replace("/", "-").replace("_", "-")


def trained():
    """Packages of the list that the models were trained on, by themselves or with their whole repository."""
    known = set()
    with open(os.path.join(TRAIN, "..", "DATA.tsv")) as lines:
        for line in lines:
            language, _, name = line.split("\t")[0].partition(":")
            known.add((language, normal(name)))
            known.add((language, normal(name.rpartition("+")[2])))
    return [f"{language} {name}" for language, name, _ in packages() if (language, normal(name)) in known]


seen_in_training = trained()
if seen_in_training:
    sys.exit(f"{PACKAGES} lists packages that the models were trained on: {', '.join(seen_in_training)}; remove them")
if FOLDER == "--check":
    sys.exit()

sys.path.insert(0, TRAIN)
sys.argv = ["extract.py"]
import extract  # noqa: E402

SEED = "search 1"
MOST = 6000
MOST_OF_A_PACKAGE = 1000
LANGUAGES = {
    "py": (extract.py_file, (".py",)),
    "rs": (extract.rs_file, (".rs",)),
    "js": (extract.js_file, (".js", ".mjs", ".ts")),
}


def run(*command, **options):
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)


def fetched(language, package, version):
    """The folder with the sources of a package."""
    folder = os.path.join(FOLDER, "packages", language, f"{package.replace('/', '+')}-{version}")
    if os.path.isdir(folder):
        return folder
    partial = folder + ".partial"
    os.makedirs(partial, exist_ok=True)
    if language == "py":
        run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":none:",
            "--disable-pip-version-check", "--dest", partial, f"{package}=={version}")
    elif language == "js":
        run("npm", "pack", "--silent", "--pack-destination", partial, f"{package}@{version}")
    else:
        fetch_crate(package, version, partial)
    for file in glob.glob(os.path.join(partial, "*")):
        unpack(file, partial)
    os.rename(partial, folder)
    return folder


def fetch_crate(package, version, folder):
    """Lets cargo fetch one crate; what it depends on is removed again."""
    os.makedirs(os.path.join(folder, "src"), exist_ok=True)
    with open(os.path.join(folder, "Cargo.toml"), "w") as manifest:
        manifest.write(f'[package]\nname = "set"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
                       f'[dependencies]\n{package} = {{ version = "={version}", default-features = false }}\n')
    open(os.path.join(folder, "src/lib.rs"), "w").close()
    run("cargo", "vendor", "--quiet", "--versioned-dirs", cwd=folder)
    os.rename(os.path.join(folder, "vendor", f"{package}-{version}"), os.path.join(folder, "crate"))
    shutil.rmtree(os.path.join(folder, "vendor"))


def unpack(file, folder):
    if file.endswith((".whl", ".zip")):
        with zipfile.ZipFile(file) as archive:
            archive.extractall(folder)
    elif file.endswith((".tgz", ".tar.gz")):
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")


def functions(language):
    read, endings = LANGUAGES[language]
    seen = set()
    for own, package, version in packages():
        if own != language:
            continue
        folder = fetched(language, package, version)
        for file in sorted(glob.glob(os.path.join(folder, "**", "*"), recursive=True)):
            relative = os.path.relpath(file, folder)
            if not file.endswith(endings) or extract.SKIP.search(relative) or not os.path.isfile(file):
                continue
            with open(file, errors="replace") as source:
                text = source.read()
            for name, comment, code in read(text) or ():
                question, code = extract.clean(comment, language), extract.squeeze(code)
                digest = hashlib.sha256(f"{SEED} {name} {code}".encode()).hexdigest()
                if len(code) < 60 or digest in seen:
                    continue
                seen.add(digest)
                first = question.split("\n")[0] if question else ""
                is_long = len(first.split()) >= 4 and code.count("\n") >= 4
                yield digest, {"package": package, "name": name, "code": code, "query": first if is_long else None}


def chosen(found):
    """Functions of all packages, in an order that depends on the seed only, and not too many of one."""
    count = collections.Counter()
    kept = []
    for _, function in sorted(found, key=lambda item: item[0]):
        count[function["package"]] += 1
        if count[function["package"]] <= MOST_OF_A_PACKAGE:
            kept.append(function)
    return kept[:MOST]


for language in LANGUAGES:
    found = chosen(functions(language))
    asked = collections.Counter(function["query"] for function in found)
    with open(os.path.join(FOLDER, f"{language}.jsonl"), "w") as out:
        for function in found:
            if asked[function["query"]] > 1:
                function["query"] = None
            out.write(json.dumps(function) + "\n")
    count = sum(function["query"] is not None for function in found)
    print(f"{language}: {len(found)} functions, {count} with a question")
