#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: builds the library and its tests in a container of Debian trixie, with that one's compiler and C client (3.9), and
# runs the integration tests there, against ensembles that are had outside as ever.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
top=$(cd "$here/../.." && pwd -P)
zk=$top/test/ensemble/zk
build=$top/build-trixie

# With this machine's network, and its container engine for what tests do to servers.
inside() {
	local image options name
	image=$("$zk" image --peers)
	# NET_ADMIN: for sockets whose packets are dropped.
	options=(--rm --init --network host --cap-add NET_ADMIN --user "$(id -u):$(id -g)")
	options+=(--group-add "$(stat -c %g /var/run/docker.sock)")
	options+=(-v /var/run/docker.sock:/var/run/docker.sock -v "$(command -v docker):/usr/bin/docker:ro")
	options+=(-v "$top:$top" -v /tmp:/tmp -w "$top")
	[[ ! -d ${XDG_RUNTIME_DIR:-} ]] || options+=(-v "$XDG_RUNTIME_DIR:$XDG_RUNTIME_DIR" -e XDG_RUNTIME_DIR)
	while IFS= read -r name; do
		options+=(-e "$name")
	done < <(compgen -e ZKLOCK_)
	exec docker run "${options[@]}" "$image" "$@"
}

tests() {
	exec "$zk" run "${ensemble[@]}" -- "$here/run.sh" inside ctest --test-dir "$build" --output-on-failure --no-tests=error \
		--no-label-summary --parallel "${ZKLOCK_TEST_JOBS:-6}" "$@"
}

case ${1:-} in
inside)
	shift
	inside "$@"
	;;
on)
	ensemble=()
	case $2 in
	shared) tests -L '^(unit|integration)$' -LE '^own$' ;;
	readonly) export ZKLOCK_JVMFLAGS=-Dreadonlymode.enabled=true ;;
	denied) export ZKLOCK_JVMFLAGS=-Dzookeeper.DigestAuthenticationProvider.enabled=false ;;
	disagree) export ZKLOCK_CFG3='minSessionTimeout=6000 maxSessionTimeout=6000' ZKLOCK_SYNC_LIMIT=5 ;;
	limits_servers) ensemble=(--disk 16) ;;
	esac
	tests -R "^integration\.$2\$"
	;;
'')
	warnings=()
	[[ -z ${CI:-} ]] || warnings=(-DCMAKE_COMPILE_WARNING_AS_ERROR=ON)
	"$here/run.sh" inside cmake -S "$top" -B "$build" -G Ninja --log-level=WARNING -DBUILD_TESTING=ON \
		-DZKLOCK_TEST_OWN_ENSEMBLE=OFF "${warnings[@]}"
	"$here/run.sh" inside cmake --build "$build"
	# Those that take servers away have an ensemble each, beside all those that share one. There is no Java compiler, which
	# renewal needs.
	printf '%s\n' shared servers election_servers cutoff cutoff_election limits_servers cutoff_finds_overlap progress \
		faithful_servers readonly denied disagree | xargs -n 1 -P 2 "$here/run.sh" on
	;;
*)
	echo "usage: run.sh" >&2
	exit 64
	;;
esac
