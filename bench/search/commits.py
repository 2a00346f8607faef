#!/usr/bin/env python3
"""Makes the sets of `cargo xtask search --commits`: subjects of commits as questions, the changed files as answers.

Usage: commits.py REPOSITORIES TRAIN CLONES OUT

REPOSITORIES lists the repositories; CLONES has a bare clone of each as `owner+name/repo`. Writes OUT/<owner+name>.json.
TRAIN is the folder of the training scripts, whose reading of commits is used.
"""

import json
import os
import sys

repositories, train, clones, out = sys.argv[1:5]
sys.path.insert(0, train)
sys.argv = ["human_queries.py", "import"]
import human_queries  # noqa: E402

human_queries.REPOS = []
with open(repositories) as lines:
    for line in lines:
        if not line.startswith("#"):
            name, language, use, endings = line.split()
            human_queries.REPOS.append((name.replace("/", "+"), language, tuple(endings.split(",")), use, ""))

missing = [name for name, *_ in human_queries.REPOS if not os.path.isdir(os.path.join(clones, name, "repo"))]
if missing:
    sys.exit(f"{clones} has no bare clone of {', '.join(missing)}; each belongs into a folder OWNER+NAME/repo")
human_queries.build(clones, out)
for name, _, _, use, _ in human_queries.REPOS:
    with open(os.path.join(out, f"{name}.json")) as made:
        one = json.load(made)
    print(f"{name} ({use}): commit {one['head']}, {len(one['queries'])} questions")
