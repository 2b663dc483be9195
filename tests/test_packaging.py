"""What is built and installed is the whole package: wheel, source distribution, editable install."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import intraskill

ROOT = Path(__file__).parents[1]
SHIPPED = ("configs/config.yaml", "configs/exp/planted.yaml", "prompts/en/reduce.md", "py.typed")
SHIPPED += ("policies/tiny/model.safetensors", "environments/shopworld/market/goods_en.yaml")
SMALL_RUN = ["train", "+exp=planted", "rounds=1", "grpo.steps_per_round=1", "run_dir=run"]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A copy of what a build reads, so that its litter stays out of the real one."""
    root = tmp_path_factory.mktemp("packaging") / "checkout"
    litter = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for folder in ("src", "configs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=litter)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, root)
    return root


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    return build_wheel(checkout)


def pip(*words: object) -> None:
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, words)]
    subprocess.run(command, check=True, capture_output=True, text=True, env=clean_environment())


def clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def build_wheel(source: Path) -> Path:
    out = source.parent / f"{source.name}-wheel"
    pip("wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", out, source)
    return next(out.glob("*.whl"))


def installed_files(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def python_with(root: Path, *what: object) -> Path:
    """An environment of its own that holds one install of ours and borrows the dependencies."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    python = next(path for path in (root / "bin" / "python", root / "Scripts" / "python.exe") if path.exists())
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout.strip())
    borrowed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (packages / "borrowed.pth").write_text("\n".join(borrowed))
    pip("install", "--no-deps", "--no-index", "--no-build-isolation", "--target", packages, *what)
    return python


def printed(python: Path, where: Path, *words: str) -> str:
    done = subprocess.run(
        [python, *words], cwd=where, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_holds_every_file_of_the_package_and_the_configs(checkout: Path, wheel: Path) -> None:
    package, configs = checkout / "src" / "intraskill", checkout / "configs"
    here = {f"intraskill/{path.relative_to(package).as_posix()}" for path in package.rglob("*") if path.is_file()}
    here |= {f"intraskill/configs/{path.relative_to(configs).as_posix()}" for path in configs.rglob("*.*")}
    assert {f"intraskill/{name}" for name in SHIPPED} <= here
    assert installed_files(wheel) == here


def test_a_source_distribution_makes_the_same_wheel(checkout: Path, wheel: Path, tmp_path: Path) -> None:
    build = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=checkout, check=True, capture_output=True)
    safely = {"filter": "data"} if sys.version_info >= (3, 11, 4) else {}
    shutil.unpack_archive(next(tmp_path.glob("*.tar.gz")), tmp_path, **safely)
    source = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert installed_files(build_wheel(source)) == installed_files(wheel)


def test_an_installed_wheel_trains_in_another_folder(wheel: Path, tmp_path: Path) -> None:
    python = python_with(tmp_path / "environment", wheel)
    run = f"import intraskill, sys; from intraskill.cli import main; print(intraskill.__file__); main({SMALL_RUN!r})"
    said = printed(python, tmp_path, "-c", run)
    assert Path(said.splitlines()[0]).is_relative_to(tmp_path / "environment")
    assert "β ± SE" in said and (tmp_path / "run" / "final" / "DONE").exists()
    told = printed(python, tmp_path, "-c", "from importlib.metadata import version; print(version('intraskill'))")
    assert told.strip() == intraskill.__version__


def test_an_editable_install_finds_the_configs_of_the_checkout(checkout: Path, tmp_path: Path) -> None:
    python = python_with(tmp_path / "environment", "-e", checkout)
    ask = "import intraskill; from intraskill.config.shipped import CONFIGS; print(intraskill.__file__, CONFIGS)"
    package = checkout / "src" / "intraskill"
    assert printed(python, tmp_path, "-c", ask).split() == [str(package / "__init__.py"), str(checkout / "configs")]


def test_git_tracks_no_symbolic_link() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-s"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert len(listed.splitlines()) > 100
    assert [line for line in listed.splitlines() if line.startswith("120000")] == []
