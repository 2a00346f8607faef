"""Packs a program as a wheel: wheel.py PROGRAM VERSION PLATFORM README OUT_FOLDER."""
import base64
import hashlib
import pathlib
import sys
import zipfile

program, version, platform, readme, folder = sys.argv[1:]
tag = f"py3-none-{platform}"
info = f"toolyard-{version}.dist-info"
metadata = f"""Metadata-Version: 2.1
Name: toolyard
Version: {version}
Summary: One endpoint for every tool: a gateway for the Model Context Protocol
License: MIT OR Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{pathlib.Path(readme).read_text(encoding="utf-8")}"""
wheel = f"Wheel-Version: 1.0\nGenerator: toolyard xtask\nRoot-Is-Purelib: false\n"
wheel += "".join(f"Tag: py3-none-{one}\n" for one in platform.split("."))
files = {
    f"toolyard-{version}.data/scripts/toolyard": (pathlib.Path(program).read_bytes(), 0o755),
    f"{info}/METADATA": (metadata.encode(), 0o644),
    f"{info}/WHEEL": (wheel.encode(), 0o644),
}
record = ""
for name, (data, _) in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    record += f"{name},sha256={digest},{len(data)}\n"
record += f"{info}/RECORD,,\n"
files[f"{info}/RECORD"] = (record.encode(), 0o644)
path = pathlib.Path(folder) / f"toolyard-{version}-{tag}.whl"
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for name, (data, mode) in files.items():
        entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
        entry.external_attr = (0o100000 | mode) << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)
print(path)
