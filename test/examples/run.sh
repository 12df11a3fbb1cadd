#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR SOURCE_DIR: the examples, and what the README says, against the servers in ZKLOCK_TEST_SERVERS.
set -euo pipefail
build=$1 source=$2
lock=/examples/$$-$RANDOM
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "$*" >&2
	exit 1
}

# expect PATTERN COMMAND...: the command succeeds and says so.
expect() {
	local pattern=$1 out
	shift
	out=$("$@") || fail "failed: $*"
	grep -qE "$pattern" <<<"$out" || fail "no $pattern in the output of $*: $out"
}

expect '^held, token [0-9]+$' "$build/examples/critical_section" "$ZKLOCK_TEST_SERVERS" "$lock"

# Elections. Each line comes at once, so that it can be waited for.
election=$lock-election
says() { grep -qE "$2" "$1"; }                  # FILE PATTERN: in some line
says_last() { tail -n 1 "$1" | grep -qE "$2"; } # in the last one
wait_until() {                                  # one of these, FILE PATTERN
	local tries=0
	until "$@"; do
		((tries++ < 400)) || fail "no $3 in: $(cat "$2")"
		sleep 0.05
	done
}
"$build/examples/observer" "$ZKLOCK_TEST_SERVERS" "$election" >"$work/observer" &
observer=$!
wait_until says "$work/observer" '^nobody$'
expect '^act 5 in epoch 0, token [0-9]+$' "$build/examples/leader_callbacks" "$ZKLOCK_TEST_SERVERS" "$election"
wait_until says "$work/observer" '^leader 0 .*leader_callbacks$'
"$build/examples/candidate" -s "$ZKLOCK_TEST_SERVERS" -T 4 "$election" >"$work/candidate" &
candidate=$!
wait_until says "$work/candidate" '^elected 1$'
wait_until says "$work/observer" '^leader 1 .*candidate$'
kill "$candidate"
wait "$candidate" || fail "candidate ended with $?"
if [[ -x $build/examples/leader_run ]]; then
	"$build/examples/leader_run" "$ZKLOCK_TEST_SERVERS" "$election" >"$work/leader_run" &
	candidate=$!
	wait_until says "$work/leader_run" '^leading, epoch 2$'
	kill "$candidate"
	wait "$candidate" || fail "leader_run ended with $?"
fi
wait_until says_last "$work/observer" '^nobody$'
kill "$observer"
wait "$observer" || fail "observer ended with $?"

# The C program in the README, as a reader would build it, but for the servers and the path.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/README.md" >"$work/job.c"
grep -q zkl_lock_acquire "$work/job.c" || fail "no C program in README.md"
sed -i -e "s#\"127.0.0.1:21811,[^\"]*\"#\"$ZKLOCK_TEST_SERVERS\"#" -e "s#/locks/job#$lock#" "$work/job.c"
"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$source/include" "$work/job.c" -L"$build/lib" -lzklock \
	-Wl,-rpath,"$build/lib" -o "$work/job"
expect '^mine, token [0-9]+$' "$work/job"

# The commands of its section on zklock-run.
export ZKLOCK_SERVERS=$ZKLOCK_TEST_SERVERS
# shellcheck disable=SC2016 # for the command's shell
expect '^mine, token [0-9]+$' "$build/bin/zklock-run" "$lock" -- sh -c 'echo "mine, token $ZKLOCK_TOKEN"'
"$build/bin/zklock-run" "$lock" -- "$build/bin/zklock-run" -n "$lock-other" -- true || fail "another lock inside of one"
# shellcheck disable=SC2016 # for the commands' shell
mkfifo "$work/held" "$work/go"
# shellcheck disable=SC2016
"$build/bin/zklock-run" "$lock" -- sh -c 'echo >"$1/held"; read -r _ <"$1/go"' sh "$work" &
read -r _ <"$work/held"
status=0
out=$("$build/bin/zklock-run" -n "$lock" -- echo ran 2>&1) || status=$?
[[ $status == 75 && -z $out ]] || fail "busy: status $status, output '$out'"
echo >"$work/go"
wait
