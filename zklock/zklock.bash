# SPDX-License-Identifier: Apache-2.0
# Completion of zklock-run and zklock-fence for bash, on top of bash-completion. The options are those that --help tells.

# The value that --help calls KIND.
_zklock_value() { # KIND WORD
	case $1 in
	FILE) _filedir ;;
	SERVERS) mapfile -t COMPREPLY < <(compgen -W "${ZKLOCK_SERVERS-}" -- "$2") ;;
	DURATION) [[ ! $2 =~ ^[0-9]*\.?[0-9]+$ ]] || COMPREPLY=("$2"{ms,s,m,h}) ;;
	esac
	__ltrim_colon_completions "$2"
}

# Fills `options` and, by option, `kinds` of values, from lines like "  -w, --wait=DURATION       wait so long".
_zklock_help() { # COMMAND
	local line word short

	while IFS= read -r line; do
		[[ $line =~ ^\ +-[^\ ]+(\ -[^\ ]+)* ]] || continue
		short=''
		for word in ${BASH_REMATCH[0]//,/}; do
			if [[ $word == --*=* ]]; then
				options+=("${word%%=*}=")
				kinds[${word%%=*}]=${word#*=}
				[[ -z $short ]] || kinds[$short]=${word#*=}
			elif [[ $word == --* ]]; then
				options+=("$word")
			else
				short=$word
			fi
		done
	done < <("${1/#\~/$HOME}" --help 2>/dev/null)
}

# Sets `kind` to what the next word must be the value of, if any. Of several letters the first that takes a value has what is
# left of the word.
_zklock_kind() { # OPTION
	local i

	kind=${kinds[$1]-}
	[[ $1 != --* ]] || return 0
	for ((i = 1; i < ${#1}; i++)); do
		kind=${kinds[-${1:i:1}]-}
		[[ -n $kind ]] || continue
		((i + 1 == ${#1})) || kind=''
		return
	done
}

# As if the command line began with the word of this number.
_zklock_command() { # NUMBER
	local i part=0 joined

	# COMP_WORDS has words that are cut at '=' and ':'.
	for ((i = 0; i < $1; i++)); do
		joined=''
		while [[ $joined != "${words[i]}" ]] && ((part < COMP_CWORD)); do
			joined+=${COMP_WORDS[part]}
			((part += 1))
		done
	done
	_command_offset "$part"
}

_zklock() {
	local cur words cword kind='' first=1 ended='' command
	local options=() operands=(PATH)
	local -A kinds=()

	[[ ${1##*/} != zklock-fence ]] || operands=(FILE TOKEN)
	_get_comp_words_by_ref -n =: cur words cword
	_zklock_help "$1"

	while ((first < cword)) && [[ ${words[first]} == -?* && -z $ended ]]; do
		if [[ ${words[first]} == -- ]]; then ended=yes; else _zklock_kind "${words[first]}"; fi
		((first += 1))
		[[ -z $kind ]] || ((first += 1))
		((first > cword)) || kind=''
	done
	command=$((first + ${#operands[@]}))

	if [[ -n $kind ]]; then
		_zklock_value "$kind" "$cur"
	elif ((first == cword)) && [[ $cur == --*=* && -z $ended ]]; then
		cur=${cur#*=}
		_zklock_value "${kinds[${words[cword]%%=*}]-}" "$cur"
	elif ((first == cword)) && [[ $cur == -* && -z $ended ]]; then
		mapfile -t COMPREPLY < <(compgen -W "${options[*]}" -- "$cur")
		[[ ${COMPREPLY-} != *= ]] || compopt -o nospace
	elif ((cword < command)); then
		_zklock_value "${operands[cword - first]}" "$cur"
	elif ((cword == command)) && [[ $cur == -* ]]; then
		COMPREPLY=(--)
	else
		[[ ${words[command]} != -- ]] || ((command += 1))
		_zklock_command "$command"
	fi
}
complete -F _zklock zklock-run zklock-fence
