#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# near_the_end.sh FOLDER NEXT: writes data for a server to begin with (NearTheEnd.java), with its own classes.
set -eu
here=$(dirname "$0")
rm -rf "$1"
mkdir -p "$1"
jars=/usr/share/java/zookeeper.jar:/usr/share/java/zookeeper-jute.jar
ecj -17 -proc:none -cp "$jars" -d "$1/classes" "$here/NearTheEnd.java"
# The log binding is for what goes wrong.
exec java -Dorg.slf4j.simpleLogger.defaultLogLevel=error -cp "$1/classes:$jars:/usr/share/java/slf4j-simple.jar" NearTheEnd "$1/version-2" "$2"
