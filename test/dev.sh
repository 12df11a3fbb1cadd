#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# dev.sh SOURCE_DIR: wrong arguments of ./dev are told at once, with nothing installed, built or started.
set -uo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Whatever it would begin with.
for program in apt-get cmake ctest docker; do
	printf '#!/bin/sh\ntouch "%s/begun"\nexit 1\n' "$work" >"$work/$program"
	chmod +x "$work/$program"
done
failed=0

# refuses WORD ARG...: ./dev ARG... ends with 64 or 2, and names the WORD.
refuses() {
	local word=$1 status=0
	shift
	PATH=$work:$PATH "$source/dev" "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
	if [[ ($status != 64 && $status != 2) || -e $work/begun ]] || ! grep -q -e "$word" "$work/err"; then
		failed=1
		echo "./dev $*: status $status, $(ls "$work/begun" 2>&1); it said: $(cat "$work/err")" >&2
	fi
	rm -f "$work/begun"
}

refuses nonsense nonsense
refuses demo demo nonsense
refuses build build --nonsense
refuses nonsense test --nonsense
refuses --repeat test --repeat x unit
refuses --sanitize test --sanitize x
refuses nonsense sim --nonsense
refuses --schedules sim --schedules x
refuses --seed sim --seed
refuses nonsense mutants --nonsense
refuses --rounds drill --rounds x
refuses nonsense drill nonsense
refuses --minutes chaos --minutes x
refuses nonsense chaos --peer nonsense
refuses nonsense chaos --nonsense
refuses nonsense bench --nonsense
refuses nonsense bench nonsense
refuses nonsense outages nonsense
refuses nonsense model --nonsense
refuses --seconds fuzz --seconds x
refuses nonsense fuzz nonsense
refuses nonsense check format nonsense
refuses nonsense zk nonsense
exit "$failed"
