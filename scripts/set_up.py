"""Set up what is missing: system packages, .venv from requirements.lock, node_modules from package-lock.json.

`make` runs this before everything else. Where all is in place it says nothing and takes a moment.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

VERSION = f"{sys.version_info[0]}.{sys.version_info[1]}"
ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
BIN = VENV / "bin"
NODE_MODULES = ROOT / "node_modules"


class Need(NamedTuple):
    """Something the system must have, and what it is called by each package manager."""

    what: str
    is_there: bool
    apt: str
    dnf: str
    brew: str


def main() -> None:
    """Set up what is missing."""
    parser = argparse.ArgumentParser(description="Set up what is missing.")
    parser.add_argument("--tests", action="store_true", help="also what only the tests need: Chromium")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    set_up_system(needs())
    if not is_current(VENV, state_of_venv()):
        make_venv()
    if not is_current(NODE_MODULES, state_of_node_modules()):
        make_node_modules()
    if arguments.tests and not has_browser():
        set_up_browser()


def say(text: str) -> None:
    """Print one line at once, before what it announces begins."""
    print(f"set-up: {text}", flush=True)


def run(*command: str | Path, **environment: str | Path) -> None:
    """Run a command, letting only its complaints through; if it fails, end with a line that names it."""
    quiet = subprocess.DEVNULL
    status = subprocess.call(command, env={**os.environ, **environment}, stdin=quiet, stdout=quiet)
    if status:
        sys.exit(f"set-up: this command failed with exit status {status}: {' '.join(map(str, command))}")


def succeeds(*command: str | Path) -> bool:
    """Whether a command can be run and ends with status 0."""
    quiet = subprocess.DEVNULL
    try:
        return subprocess.call(command, stdin=quiet, stdout=quiet, stderr=quiet) == 0
    except OSError:
        return False


# A stamp names all that its folder was made from, and is written last. So an interrupted set-up, a changed
# lock and a moved checkout (the scripts in .venv hold absolute paths) all read as "not current", and
# the folder is made anew.


def is_current(folder: Path, state: str) -> bool:
    """Whether the folder was made, to its end, from this state."""
    stamp = folder / "set-up.stamp"
    return stamp.is_file() and stamp.read_text() == state


def write_stamp(folder: Path, state: str) -> None:
    """Record that the folder is complete."""
    (folder / "set-up.stamp").write_text(state)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def state_of_venv() -> str:
    """What .venv is made from; the last line changes when the Python it was made with goes away."""
    works = succeeds(BIN / "python", "-c", "")
    return f"{ROOT}\n{digest(ROOT / 'requirements.lock')}\n{'works' if works else 'broken'}\n"


def state_of_node_modules() -> str:
    """What node_modules is made from: its lock, and the Node.js that requirements.lock brings."""
    return f"{digest(ROOT / 'package-lock.json')}\n{digest(ROOT / 'requirements.lock')}\n"


def needs() -> list[Need]:
    """What .venv is built with (pycairo and manimpango come as source only), and the kernels on a CPU."""
    ensurepip = find_spec("ensurepip") is not None
    headers = Path(sysconfig.get_path("include"), "Python.h").is_file()
    cxx, pkg_config = bool(shutil.which("c++")), bool(shutil.which("pkg-config"))
    cairo, pango = succeeds("pkg-config", "cairo"), succeeds("pkg-config", "pangocairo")
    return [
        Need("Python's venv", ensurepip, f"python{VERSION}-venv", "python3-libs", "python"),
        Need("Python's headers", headers, f"python{VERSION}-dev", "python3-devel", "python"),
        Need("a C++ compiler", cxx, "g++", "gcc-c++", "gcc"),
        Need("pkg-config", pkg_config, "pkg-config", "pkgconf-pkg-config", "pkgconf"),
        Need("cairo's headers", cairo, "libcairo2-dev", "cairo-devel", "cairo"),
        Need("pango's headers", pango, "libpango1.0-dev", "pango-devel", "pango"),
    ]


def set_up_system(wanted: list[Need]) -> None:
    """Install by apt what is missing; where that is impossible, say what to install, and stop."""
    missing = [need for need in wanted if not need.is_there]
    if not missing:
        return
    root = as_root()
    if root is None or shutil.which("apt-get") is None:
        sys.exit(
            f"Missing on this system: {', '.join(need.what for need in missing)}.\n"
            "It cannot be installed from here (that takes apt-get, and root or sudo without a password).\n"
            "Install it by the line for your system, then run the same make command again:\n"
            f"  Debian, Ubuntu:  sudo apt-get install {' '.join(need.apt for need in missing)}\n"
            f"  Fedora:          sudo dnf install {' '.join(need.dnf for need in missing)}\n"
            f"  macOS:           brew install {' '.join(dict.fromkeys(need.brew for need in missing))}"
        )
    packages = [need.apt for need in missing]
    say(f"installing by apt: {' '.join(packages)}")
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    run(*apt, "update")
    run(*apt, "-o", "Dpkg::Use-Pty=0", "install", "--yes", "--no-install-recommends", *packages)


def as_root() -> list[str] | None:
    """What to put before a command to run it as root; None where that is impossible without a password."""
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if succeeds("sudo", "-n", "true") else None


def make_venv() -> None:
    """Make .venv anew, with every locked package and this project."""
    say("making .venv from requirements.lock (a few minutes the first time)")
    run(sys.executable, "-m", "venv", "--clear", VENV)
    # Without these constraints pip would build pycairo and manimpango with the newest tools of the day.
    constraints = VENV / "build-constraints.txt"
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    constraints.write_text("".join(line.rstrip(" \\") + "\n" for line in lines if line[:1].isalnum()))
    pip = [
        str(BIN / "python"),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--quiet",
        "--use-pep517",
    ]
    pins = {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
    run(*pip, "--require-hashes", "-r", "requirements.lock", **pins)
    run(*pip, "--no-deps", "--no-build-isolation", "--editable", ".")
    write_stamp(VENV, state_of_venv())


def make_node_modules() -> None:
    """Make node_modules anew with the npm of .venv."""
    say("making node_modules from package-lock.json")
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])
    run(BIN / "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", PATH=path)
    write_stamp(NODE_MODULES, state_of_node_modules())


def has_browser() -> bool:
    """Whether the tests find a Chromium: the system's, or else Playwright's own build."""
    if shutil.which("chromium") or shutil.which("google-chrome"):
        return True
    look = "import os; from playwright.sync_api import sync_playwright as start\n"
    look += "with start() as playwright: os.stat(playwright.chromium.executable_path)"
    return succeeds(BIN / "python", "-c", look)


def set_up_browser() -> None:
    """Install Chromium by apt; on Ubuntu, where that is a snap that many systems refuse, by Playwright."""
    release = Path("/etc/os-release")
    if not (release.is_file() and "ID=ubuntu" in release.read_text().splitlines()):
        set_up_system([Need("Chromium", False, "chromium", "chromium", "--cask chromium")])
        return
    say("installing Playwright's Chromium")
    with_libraries = ["--with-deps"] if as_root() is not None else []
    run(BIN / "python", "-m", "playwright", "install", *with_libraries, "chromium")


if __name__ == "__main__":
    main()
