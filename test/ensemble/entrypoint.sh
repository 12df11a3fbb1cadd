#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Entry point of the local ZooKeeper image (see image.py). It understands the variables of the official image that
# docker-compose.yml uses, so that one compose file drives both.
set -eu

data=${ZOO_DATA_DIR:-/data}
datalog=${ZOO_DATA_LOG_DIR:-/datalog}
config=/etc/zookeeper-ensemble.cfg

{
	echo "dataDir=$data"
	echo "dataLogDir=$datalog"
	echo "tickTime=${ZOO_TICK_TIME:-2000}"
	echo "initLimit=${ZOO_INIT_LIMIT:-5}"
	echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
	echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
	echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
	echo "admin.enableServer=${ZOO_ADMINSERVER_ENABLED:-false}"
	if [[ -n ${ZOO_4LW_COMMANDS_WHITELIST:-} ]]; then
		echo "4lw.commands.whitelist=$ZOO_4LW_COMMANDS_WHITELIST"
	fi
	# Both lists are words separated by blanks.
	read -ra lines <<<"${ZOO_SERVERS:-server.1=localhost:2888:3888;2181} ${ZOO_CFG_EXTRA:-}"
	printf '%s\n' "${lines[@]}"
} >"$config"

# A server that comes back after a crash keeps its id and its data.
[[ -f $data/myid ]] || echo "${ZOO_MY_ID:-1}" >"$data/myid"

read -ra flags <<<"${JVMFLAGS:-}"
# Without a log binding a server says nothing of what goes wrong.
exec java "${flags[@]}" -cp /usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar \
	org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"
