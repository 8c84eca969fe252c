#!/usr/bin/env bash
# Run a Python of another version in an environment with the project: scripts/python.sh 3.14 -m pytest ...
# The interpreter comes from the PATH or, for root on Linux, from a Debian suite that is installed below target/ and used
# with chroot. The environment is .venvs/python-VERSION.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1; shift
environment=$PWD/.venvs/python-$version

if command -v "python$version" >/dev/null && "python$version" --version >/dev/null 2>&1; then
    inside() { "$@"; }
    python=python$version
else
    case $version in
        3.13) suite=trixie ;;
        3.14) suite=forky ;;
        *) echo "no python$version on the PATH, and no Debian suite is known that has it" >&2; exit 2 ;;
    esac
    system=$PWD/target/debian/$suite
    python=python3
    if [ ! -f "$system/.made" ]; then
        command -v debootstrap >/dev/null || { apt-get update -qq; apt-get install -y -qq debootstrap >/dev/null; }
        mkdir -p "$system"
        # Older versions of debootstrap do not know the names of newer suites, which they install like any other.
        debootstrap --variant=minbase --include=python3,python3-venv,python3-dev,ca-certificates,git \
            "$suite" "$system" "" /usr/share/debootstrap/scripts/sid >"$system.log" 2>&1 || { tail "$system.log" >&2; exit 1; }
        rm -rf "$system/etc/ssl/certs"
        cp -rL /etc/ssl/certs "$system/etc/ssl/certs"
        cp /etc/resolv.conf /etc/hosts "$system/etc/"
        touch "$system/.made"
    fi
    # The mounts belong to this process alone and end with it.
    inside() {
        mkdir -p "$system$PWD"
        unshare --mount bash -c '
            system=$1; shift
            mount --bind "$PWD" "$system$PWD"
            for folder in /proc /dev /dev/shm; do mount --rbind "$folder" "$system$folder"; done
            exec chroot "$system" bash -c "cd \"\$0\" && exec \"\$@\"" "$PWD" "$@"' bash "$system" "$@"
    }
fi

if [ ! -f "$environment/.made" ] || [ pyproject.toml -nt "$environment/.made" ]; then
    inside "$python" -m venv "$environment"
    inside "$environment/bin/python" -m pip install --quiet --editable '.[dev]'
    touch "$environment/.made"
fi
inside "$environment/bin/python" "$@"
