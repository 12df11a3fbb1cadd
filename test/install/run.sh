#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh BUILD_DIR SOURCE_DIR: installs a build to a fresh prefix and builds a consumer against it: through pkg-config and
# through the CMake package, from C and from C++, shared and static.
set -euo pipefail
build=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >/dev/null
libdir=$(dirname "$(find "$prefix" -name zklock.pc)")
export PKG_CONFIG_PATH=$libdir LD_LIBRARY_PATH=${libdir%/pkgconfig}
read -ra flags <<<"$(pkg-config --cflags --libs zklock)"
read -ra static <<<"$(pkg-config --cflags --libs --static zklock)"

cp "$source/test/install/consumer.c" "$work/consumer.c"
cp "$work/consumer.c" "$work/consumer.cc"
"${CC:-cc}" -std=c11 -Wall -Wextra -Wpedantic -Werror "$work/consumer.c" "${flags[@]}" -o "$work/c" && "$work/c"
"${CXX:-c++}" -std=c++11 -Wall -Wextra -Wpedantic -Werror "$work/consumer.cc" "${flags[@]}" -o "$work/cc" && "$work/cc"
rm "${libdir%/pkgconfig}"/libzklock.so*
"${CC:-cc}" -std=c11 "$work/consumer.c" "${static[@]}" -o "$work/static" && "$work/static"
cmake --install "$build" --prefix "$prefix" >/dev/null

cat >"$work/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C CXX)
find_package(zklock 0.1 REQUIRED)
add_executable(c consumer.c)
target_link_libraries(c PRIVATE zklock::zklock)
add_executable(cc consumer.cc)
target_link_libraries(cc PRIVATE zklock::zklock)
add_executable(static consumer.c)
target_link_libraries(static PRIVATE zklock::zklock_static)
END
cmake -S "$work" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/build" >/dev/null
for program in c cc static; do "$work/build/$program"; done

for command in zklock-run zklock-fence; do
	for file in "bin/$command" "share/man/man1/$command.1" "share/bash-completion/completions/$command"; do
		[[ -s $prefix/$file ]] || { echo "not installed: $file" >&2 && exit 1; }
	done
done

# What links to something else does so to what is installed, too.
while IFS= read -r file; do
	{ grep -o '](\([^)#:]*\))' "$file" || true; } | sed 's/^](//; s/)$//' | while IFS= read -r link; do
		[[ -e $(dirname "$file")/$link ]] || { echo "$file links to $link, which is not installed" >&2 && exit 1; }
	done
done < <(find "$prefix" -name '*.md')

# Nothing but the API is exported.
nm -D --defined-only "${libdir%/pkgconfig}/libzklock.so" |
	awk '$2 == "T" && $3 !~ /^zkl_[a-z]/ { print "exported: " $3; bad = 1 } END { exit bad }'
