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
		((tries++ < 1000)) || fail "no $3 in: $(cat "$2")"
		sleep 0.05
	done
}
"$build/examples/observer" "$ZKLOCK_TEST_SERVERS" "$election" >"$work/observer" &
observer=$!
wait_until says "$work/observer" '^nobody$'
expect '^act 5 in epoch 0, token [0-9]+$' "$build/examples/leader_callbacks" "$ZKLOCK_TEST_SERVERS" "$election"
wait_until says "$work/observer" '^leader 0 .*leader_callbacks$'
"$build/examples/candidate" -s "$ZKLOCK_TEST_SERVERS" -T 8 "$election" >"$work/candidate" &
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

# A resource that guards itself. Killed, it knows when it is back whom it has seen.
export ZKLOCK_SERVERS=$ZKLOCK_TEST_SERVERS
serve() { # PORT
	"$build/examples/fenced_service" "$1" "$work/resource" >"$work/service" &
	service=$!
	wait_until says "$work/service" '^listening on '
	port=$(sed -n 's/^listening on \([0-9]*\),.*/\1/p' "$work/service")
}
status_of() {
	local status=0
	"$@" >"$work/out" 2>"$work/err" || status=$?
	echo "$status"
}
client=$source/examples/fenced_client
mkdir "$work/resource"
serve 0
# shellcheck disable=SC2016 # for the command's shell
old=$("$build/bin/zklock-run" "$lock" -- sh -c '"$0" "$1" put one >/dev/null && echo "$ZKLOCK_TOKEN"' "$client" "$port")
expect '^one$' "$build/bin/zklock-run" "$lock" -- "$client" "$port" get
[[ $(ZKLOCK_TOKEN=$old status_of "$client" "$port" put late) == 79 ]] || fail "an older token was admitted"
# A request that breaks off, and a value that is too long, change nothing.
for half in "$((old + 1000)) put half" "$((old + 1000)) put $(printf '%0300d' 0)"$'\n'; do
	(exec 3<>"/dev/tcp/127.0.0.1/$port" && printf '%s' "$half" >&3)
done
expect '^one$' "$build/bin/zklock-run" "$lock" -- "$client" "$port" get
kill -9 "$service"
wait "$service" 2>/dev/null || true
serve "$port"
[[ $(ZKLOCK_TOKEN=$old status_of "$client" "$port" put late) == 79 ]] || fail "an older token was admitted after a restart"
expect '^one$' "$build/bin/zklock-run" "$lock" -- "$client" "$port" get
kill "$service"
wait "$service" 2>/dev/null || true

# A shell script on the resource's host.
fence=$work/resource/script
# shellcheck disable=SC2016
fenced='zklock-fence "$0" "$ZKLOCK_TOKEN" -- sh -c "echo \$ZKLOCK_TOKEN"'
token=$(PATH=$build/bin:$PATH "$build/bin/zklock-run" "$lock" -- sh -c "$fenced" "$fence")
[[ $token -gt $old ]] || fail "token $token after $old"
[[ $(status_of "$build/bin/zklock-fence" "$fence" "$old" -- true) == 79 ]] || fail "an older token came through zklock-fence"

# A resource that cannot check. Interrupted and run by several at once, the job makes the same of it.
mkdir "$work/outbox"
seq -f '%03g some text' 40 >"$work/wanted"
"$source/examples/reconcile" <(printf '%s' "$(head -n 7 "$work/wanted")") "$work/outbox" >"$work/made"
[[ $(wc -l <"$work/made") == 7 ]] || fail "made of the first seven: $(cat "$work/made")"
for _ in 1 2 3; do
	"$source/examples/reconcile" "$work/wanted" "$work/outbox" >>"$work/made" &
	jobs+=($!)
done
for job in "${jobs[@]}"; do
	wait "$job" || fail "reconcile ended with $?"
done
[[ $(sort "$work/made" | uniq -d) == '' && $(wc -l <"$work/made") == 40 ]] || fail "made: $(sort "$work/made")"
[[ $(ls "$work/outbox") == "$(cut -d ' ' -f 1 "$work/wanted")" ]] || fail "the outbox has: $(ls -a "$work/outbox")"
echo "another text" >"$work/outbox/003"
echo >"$work/outbox/004x"
[[ $(status_of "$source/examples/reconcile" "$work/wanted" "$work/outbox") == 1 ]] || fail "what is wrong is not told"
[[ $(sort "$work/err") == $'differs: 003\nnot wanted: 004x' ]] || fail "told: $(cat "$work/err")"

# The C program in the README, as a reader would build it, but for the servers and the path.
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source/README.md" >"$work/job.c"
grep -q zkl_lock_acquire "$work/job.c" || fail "no C program in README.md"
sed -i -e "s#\"127.0.0.1:21811,[^\"]*\"#\"$ZKLOCK_TEST_SERVERS\"#" -e "s#/locks/job#$lock#" "$work/job.c"
"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror -I"$source/include" "$work/job.c" -L"$build/lib" -lzklock \
	-Wl,-rpath,"$build/lib" -o "$work/job"
expect '^mine, token [0-9]+$' "$work/job"

# The commands of its section on zklock-run.
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
