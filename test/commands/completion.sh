#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# completion.sh BUILD_DIR: what bash completes for zklock-run and zklock-fence, as they are installed.
set -uo pipefail
build=$1
framework=/usr/share/bash-completion/bash_completion
[[ -e $framework ]] || { echo "no bash-completion here" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
export PATH=$work/prefix/bin:$PATH XDG_DATA_DIRS=$work/prefix/share
unset BASH_COMPLETION_USER_DIR XDG_DATA_HOME
# shellcheck disable=SC1090 # not ours
source "$framework" || true
cd "$work" || exit
touch conf-one conf-two
failed=0

# shellcheck disable=SC2317 # the completion calls it; there is no readline to be told
compopt() { settings+=" $*"; }

# complete_line LINE: sets COMPREPLY as bash does with the cursor at the end of LINE.
complete_line() {
	local rest=$1 word command

	COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=() COMPREPLY=() settings=''
	while [[ -n $rest ]]; do
		rest=${rest#"${rest%%[! ]*}"}
		# A run of '=' and ':' is a word of its own, as COMP_WORDBREAKS has it.
		word=${rest%%[! :=]*}
		[[ -n $word && $word != ' '* ]] && word=${word%% *} || word=${rest%%[ :=]*}
		COMP_WORDS+=("$word")
		rest=${rest#"$word"}
	done
	[[ $1 != *' ' || ${COMP_WORDS[-1]} == '' ]] || COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
	command=${COMP_WORDS[0]##*/}
	complete -p "$command" >/dev/null 2>&1 || _completion_loader "$command"
	"$(complete -p "$command" | sed 's/.*-F \([^ ]*\).*/\1/')" "$command" "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
}

# offers LINE WORD...: exactly these, in any order.
offers() {
	local line=$1 found wanted
	shift
	complete_line "$line"
	found=$(printf '%s\n' "${COMPREPLY[@]}" | sort)
	wanted=$(printf '%s\n' "$@" | sort)
	[[ $found == "$wanted" ]] || { failed=1 && echo "'$line' gives: ${found//$'\n'/ }; and should: ${wanted//$'\n'/ }" >&2; }
}

# In --help an option begins a line; elsewhere in a line options are mentioned only.
options_of() { "$1" --help | grep -oE '^ +-[^ ]+( -[^ ]+)*' | grep -o -e '--[a-z-]*=\?'; }

for command in zklock-run zklock-fence; do
	mapfile -t all < <(options_of "$command")
	((${#all[@]} >= 2)) || { failed=1 && echo "$command --help has no options" >&2; }
	offers "$command -" "${all[@]}"
done
offers 'zklock-run --conn' --connect-timeout=
[[ $settings == *nospace* ]] || { failed=1 && echo "a blank behind --connect-timeout=" >&2; }
offers 'zklock-run -n --verb' --verbose
[[ $settings != *nospace* ]] || { failed=1 && echo "no blank behind --verbose" >&2; }
offers "$work/prefix/bin/zklock-run --verb" --verbose

# Values.
offers 'zklock-run -w 10' 10ms 10s 10m 10h
offers 'zklock-run -nvw 10' 10ms 10s 10m 10h
offers 'zklock-run --wait 1.5' 1.5ms 1.5s 1.5m 1.5h
offers 'zklock-run --wait=1.5' 1.5ms 1.5s 1.5m 1.5h
offers 'zklock-run -w 10s' ''
offers 'zklock-run -w -' ''
export ZKLOCK_SERVERS=zk1:2181,zk2:2181
offers 'zklock-run -s ' "$ZKLOCK_SERVERS"
offers 'zklock-run -s zk1:2' 2181,zk2:2181
offers 'zklock-run --servers=zk1:2' 2181,zk2:2181
offers 'zklock-run -E ' ''

# PATH is the servers' to know; then come commands, and what they complete.
offers 'zklock-run ' ''
offers 'zklock-run -w5s -v ' ''
offers 'zklock-run -- -' ''
offers 'zklock-run -w5s /locks/job zklock-f' zklock-fence
offers 'zklock-run -w 5s /locks/job -' --
offers 'zklock-run /locks/job zklock-f' zklock-fence
offers 'zklock-run -s zk1:2181,zk2:2181 --wait=5 -nw 5 /locks/job -- zklock-f' zklock-fence
offers 'zklock-run --servers zk1:2181 -- /locks/job zklock-f' zklock-fence
offers 'zklock-run /locks/job -- cat conf-o' conf-one
offers 'zklock-run --servers=zk1:2181 /locks/job -- zklock-fence --vers' --version
offers 'zklock-run /locks/job -- zklock-run -n /locks/other -- cat conf-t' conf-two

offers 'zklock-fence conf' conf-one conf-two
offers 'zklock-fence conf-one ' ''
offers 'zklock-fence -w 10' 10ms 10s 10m 10h
offers 'zklock-fence -n -w 10s conf' conf-one conf-two
offers 'zklock-fence --wait=10s conf-one 7 -- cat conf-t' conf-two
offers 'zklock-fence conf-one 7 zklock-r' zklock-run
offers 'zklock-fence conf-one 7 -- cat conf-t' conf-two
exit "$failed"
